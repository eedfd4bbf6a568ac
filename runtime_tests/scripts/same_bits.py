"""Does a change of the code change anything of what is exported? A script, run by hand after one that must not.

python same_bits.py write OLD                 with the old code: bundles of schemes, modules and models
python same_bits.py write NEW                 with the new code
python same_bits.py compare OLD NEW           what differs: fields, bits, refusals, signatures, texts; status 1 if any

It compares manifests but for versions and digests, golden data, graphs (what they say of themselves, and what they give
and refuse in the old golden calls, unless their content is the same), headers, C++, reports and what commands print.
Files of TorchScript name the modules that classes stand in: they may differ so, and the summary counts them.
"""

import argparse
import os
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from fnmatch import fnmatchcase
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import TypeVar

sys.path.insert(0, str(Path(__file__).parents[1]))

from helpers.differences import SAME, SAME_BYTES, Compared, compare, of_json
from helpers.differences_of_calls import Difference
from helpers.held import FACTS, SAID, Held, held, write, write_said

NAMES, BUNDLES = 3, 6
"""Bundles that are named at a difference, and at a content."""
Value = TypeVar("Value")
Result = TypeVar("Result")


def arguments(words: Sequence[str] | None = None) -> argparse.Namespace:
    """Return what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    writing = commands.add_parser("write", help="write every bundle with this code")
    writing.add_argument("folder", type=Path)
    writing.add_argument("names", nargs="*", help="bundles whose names begin so; all without")
    writing.add_argument("--all", action="store_true", help="combinations of variants, dtypes and positions, too")
    comparing = commands.add_parser("compare", help="print what differs")
    comparing.add_argument("old", type=Path)
    comparing.add_argument("new", type=Path)
    allow = "a difference that is meant to be, with * and ?, as 'manifest.json family'; it is counted (may be repeated)"
    comparing.add_argument("--allow", action="append", default=[], metavar="WHERE", help=allow)
    for command in (writing, comparing):
        command.add_argument("--processes", type=int, default=2)
    return parser.parse_args(words)


def over(work: Callable[[Value], Result], values: Iterable[Value], processes: int) -> Iterator[Result]:
    """Yield what comes of each value, in their order, in processes with one thread and one seed of hashes each.

    With one process it is this one.
    """
    if processes == 1:
        yield from map(work, values)
        return
    os.environ |= {"PYTHONHASHSEED": "0", "OMP_NUM_THREADS": "1"}
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        yield from pool.map(work, values)


def write_all(folder: Path, bundles: Sequence[Held], processes: int) -> None:
    """Write bundles, and what commands print."""
    start = time.monotonic()
    folder.mkdir(parents=True, exist_ok=True)
    write_said(folder)
    for number, _ in enumerate(over(partial(write, folder=folder), bundles, processes), 1):
        print(f"{number} of {len(bundles)}: {bundles[number - 1].name}", flush=True)
    print(f"{len(bundles)} bundles in {time.monotonic() - start:.0f} s")


def compare_all(old: Path, new: Path, allowed: Sequence[str], processes: int) -> int:
    """Print what differs between two folders of bundles; return 1 where anything does that is not allowed."""
    names = sorted(path.parent.name for path in old.glob(f"*/{FACTS}"))
    if not names:
        sys.exit(f"{old} has no bundle that `same_bits.py write` has written")
    compared = list(over(_Pair(old, new), names, processes))
    compared.append(_of_commands(old, new))
    found = [(difference, one.name) for one in compared for difference in one.differences]
    meant = [pair for pair in found if any(fnmatchcase(pair[0].where, pattern) for pattern in allowed)]
    wrong = [pair for pair in found if pair not in meant]
    print("\n".join([*grouped(wrong), *contents(compared)]))
    added = {path.parent.name for path in new.glob(f"*/{FACTS}")} - set(names)
    bad = len({name for _, name in wrong})
    counts = f"{bad} with differences, {len(wrong)} in all; {len(meant)} were allowed; {len(added)} new"
    print(f"{len(names)} bundles: {counts}")
    return int(bool(wrong))


class _Pair:
    """Compares the bundles of a name in two folders."""

    def __init__(self, old: Path, new: Path) -> None:
        self.old, self.new = old, new

    def __call__(self, name: str) -> Compared:
        return compare(self.old / name, self.new / name)


def _of_commands(old: Path, new: Path) -> Compared:
    import json

    before, after = (json.loads((folder / SAID).read_text(encoding="utf-8")) for folder in (old, new))
    return Compared("what commands print", tuple(of_json(before, after, SAID)), {})


def grouped(found: Iterable[tuple[Difference, str]]) -> list[str]:
    """Return a line for each difference, with how many bundles have it and the first of them."""
    bundles: dict[Difference, list[str]] = defaultdict(list)
    for difference, name in found:
        bundles[difference].append(name)
    some = sorted(bundles.items(), key=lambda item: -len(item[1]))
    return [f"{difference}\n  in {_listed(names, NAMES)}" for difference, names in some]


def contents(compared: Sequence[Compared]) -> list[str]:
    """Return a line for each kind of file: how many have the same content, and which have not."""
    kinds = sorted({file for one in compared for file in one.contents})
    lines = []
    for kind in kinds:
        likeness = {one.name: one.contents[kind] for one in compared if kind in one.contents}
        counts = ", ".join(f"{count} {words}" for words, count in Counter(likeness.values()).most_common())
        others = [name for name, words in likeness.items() if words not in (SAME_BYTES, SAME)]
        lines.append(f"{kind}: {counts}" + (f": {_listed(others, BUNDLES)}" if others else ""))
    return [*lines, f"{sum(one.calls for one in compared)} calls were run on old and new graphs"]


def _listed(names: Sequence[str], most: int) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return f"{', '.join(names[:most])}{more}"


def main() -> None:
    """Write, or compare."""
    wanted = arguments()
    if wanted.command == "compare":
        sys.exit(compare_all(wanted.old, wanted.new, wanted.allow, wanted.processes))
    bundles = [one for one in held(wanted.all) if not wanted.names or one.name.startswith(tuple(wanted.names))]
    write_all(wanted.folder, bundles, wanted.processes)


if __name__ == "__main__":
    main()
