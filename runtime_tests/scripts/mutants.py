"""Mutants of what is exported: one thing is made wrong in a file, every digest is put right, and validation is asked.

python mutants.py                      every scheme, form and way to give positions
python mutants.py sinusoidal rope      of some schemes
python mutants.py rope-baked-offset    of one combination
python mutants.py --at export          the file, or the module, is made wrong between writing and proof
python mutants.py --write              puts the table into docs/validation.md
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import islice
from multiprocessing import get_context
from pathlib import Path

import posenc_export
from mutant_table import summary, write
from mutant_trials import Trial, subject, tried
from mutations import KINDS, Kind, mutants
from posenc.scheme import SCHEMES, build
from posenc.spec import CHOICES, Spec, UnsupportedSpec

EACH = 24
"""Mutants of a combination."""
WORDS = 150
"""Letters of what refused a mutant that are printed."""
PAGE = Path(__file__).parents[2] / "docs" / "validation.md"


@dataclass(frozen=True)
class Combination:
    """A scheme in one form, with one way to give positions."""

    scheme: str
    mode: str
    positions: str

    def __str__(self) -> str:
        return f"{self.scheme}-{self.mode}-{self.positions}"

    @property
    def parameters(self) -> dict[str, object]:
        """Those of the smallest sample."""
        return dict(SCHEMES[self.scheme].samples[0])


@dataclass(frozen=True)
class Result:
    """What became of the mutants of a combination, and in how many seconds."""

    combination: Combination
    trials: tuple[Trial, ...]
    seconds: float


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


def mutated(combination: Combination, each: int = EACH, seed: int = 0, kinds: tuple[Kind, ...] = KINDS) -> Result:
    """Export a combination, and try so many of its mutants."""
    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "bundle"
        posenc_export.export(
            combination.scheme,
            to=folder,
            parameters=combination.parameters,
            mode=combination.mode,
            positions=combination.positions,
            formats=("onnx",),
            validate=False,
        )
        whole = subject(folder)
        drawn = mutants(whole.model, (seed, *str(combination).encode()), kinds)
        counting = (trial for trial in (tried(whole, mutant) for mutant in drawn) if trial.outcome != "not loaded")
        trials = tuple(islice(counting, each))
    return Result(combination, trials, time.monotonic() - begin)


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
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--write", action="store_true", help="put the table into docs/validation.md")
    parser.add_argument("--all", action="store_true", help="print what was refused, too")
    return parser.parse_args()


def main() -> None:
    """Try mutants, print what became of them, and write the table."""
    asked = arguments()
    begin = time.monotonic()
    if asked.at == "export":
        from mutants_at_export import mutated_at_export as trial
    else:
        trial = mutated
    work = partial(trial, each=asked.each, seed=asked.seed, kinds=tuple(asked.kind or KINDS))
    results = []
    with ProcessPoolExecutor(asked.processes, mp_context=get_context("spawn")) as pool:
        for result in pool.map(work, chosen(asked.names)):
            results.append(result)
            show(result, asked.all)
    text = summary(results, time.monotonic() - begin, asked.processes)
    print(text)
    if asked.write:
        write(PAGE, text)


def show(result: Result, everything: bool) -> None:
    """Print what became of the mutants of a combination: those that were not refused, or all."""
    refused = sum(trial.outcome == "refused" for trial in result.trials)
    print(f"{result.combination}: {refused} of {len(result.trials)} refused, {result.seconds:.0f} s", flush=True)
    for trial in result.trials:
        if everything or trial.outcome != "refused":
            print(
                f"    {trial.outcome}: {trial.mutation}" + (f" ({trial.words[:150]})" if trial.words else ""),
                flush=True,
            )


if __name__ == "__main__":
    main()
