"""Mutants of what is exported: one thing is made wrong in a file, every digest is put right, and validation is asked.

python mutants.py                      every scheme, form and way to give positions
python mutants.py sinusoidal rope      of some schemes
python mutants.py rope-baked-offset    of one combination
python mutants.py --at export          the file, or the module, is made wrong between writing and proof
python mutants.py --modules            modules with an epsilon, and modules that move axes; names are those of classes
python mutants.py --write              puts the table into docs/reference/measured/mutants.md
"""

from __future__ import annotations

import argparse
import pickle
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path

from posenc.scheme import SCHEMES, build
from posenc.spec import CHOICES, Spec, UnsupportedSpec

sys.path.insert(0, str(Path(__file__).parents[1]))

from helpers.mutants.module_runs import ModuleResult, module_cases, mutated_module
from helpers.mutants.mutations import KINDS
from helpers.mutants.runs import EACH, Combination, Result, mutated, mutated_at_export
from helpers.mutants.table import PART, PART_OF_MODULES, summary, summary_of_modules, write

WORDS = 300
"""Letters of a line that is printed."""
PAGE = Path(__file__).parents[2] / "docs" / "reference" / "measured" / "mutants.md"


def combinations() -> Iterator[Combination]:
    """Yield every scheme in each form that it has, with each way to give positions."""
    for scheme in SCHEMES:
        for mode in CHOICES["mode"]:
            for positions in CHOICES["positions"]:
                combination = Combination(scheme, mode, positions)
                spec = Spec(mode, positions=positions, max_len=64)  # type: ignore[arg-type]
                try:
                    build(scheme, spec, **combination.parameters)
                except UnsupportedSpec:
                    continue
                yield combination


def chosen(words: list[str]) -> list[Combination]:
    """Return the combinations that are named, by their scheme or in full; all where none is."""
    return [one for one in combinations() if not words or str(one) in words or one.scheme in words]


def arguments() -> argparse.Namespace:
    """Return what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="schemes, or SCHEME-MODE-POSITIONS")
    parser.add_argument("--each", type=int, default=EACH, help="mutants of a combination")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kind", choices=KINDS, action="append", help="mutants of this kind alone")
    parser.add_argument("--at", choices=("validate", "export"), default="validate", help="when things go wrong")
    parser.add_argument("--modules", action="store_true", help="mutants of modules, in the place of those of schemes")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--keep", type=Path, help="a file of results: what it has is not run again")
    parser.add_argument("--write", action="store_true", help="put the table into docs/reference/measured/mutants.md")
    parser.add_argument("--all", action="store_true", help="print what was refused, too")
    return parser.parse_args()


def main() -> None:
    """Try mutants, print what became of them, and write the table."""
    wanted = arguments()
    if wanted.modules:
        of_modules(wanted)
        return
    work = mutated if wanted.at == "validate" else mutated_at_export
    each = partial(work, each=wanted.each, seed=wanted.seed, kinds=tuple(wanted.kind or KINDS))
    results = kept(wanted.keep)
    left = [one for one in chosen(wanted.names) if one not in {result.combination for result in results}]
    with ProcessPoolExecutor(wanted.processes, mp_context=get_context("spawn")) as pool:
        for result in pool.map(each, left):
            results.append(result)
            show(result, wanted.all)
            if wanted.keep:
                wanted.keep.write_bytes(pickle.dumps(results))
    text = summary(results)
    print(text)
    if wanted.write:
        write(PAGE, PART, text)


def of_modules(wanted: argparse.Namespace) -> None:
    """Try the mutants of modules, print what became of them, and write their table."""
    chosen = [case for case in module_cases() if not wanted.names or case.kind.__name__ in wanted.names]
    with ProcessPoolExecutor(wanted.processes, mp_context=get_context("spawn")) as pool:
        results = list(map(_shown, pool.map(mutated_module, chosen)))
    text = summary_of_modules(results)
    print(text)
    if wanted.write:
        write(PAGE, PART_OF_MODULES, text)


def _shown(result: ModuleResult) -> ModuleResult:
    survived = [str(one) for one in result.outcomes if one.became != "refused"]
    print(f"{result.case}: {len(survived)} of {len(result.outcomes)} survived, {result.seconds:.0f} s", flush=True)
    for line in survived:
        print(f"    {line}"[:WORDS], flush=True)
    return result


def kept(file: Path | None) -> list[Result]:
    """Return the results that a file has, if there is one."""
    results: list[Result] = pickle.loads(file.read_bytes()) if file is not None and file.is_file() else []
    return results


def show(result: Result, everything: bool) -> None:
    """Print what became of the mutants of a combination: those that were not refused, or all."""
    refused = sum(one.became == "refused" for one in result.outcomes)
    print(f"{result.combination}: {refused} of {len(result.outcomes)} refused, {result.seconds:.0f} s", flush=True)
    for one in result.outcomes:
        if everything or one.became != "refused":
            print(f"    {one}"[:WORDS], flush=True)


if __name__ == "__main__":
    main()
