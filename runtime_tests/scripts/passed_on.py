"""Through how many functions and rooms is an argument passed, and how often to a room below? A script.

python passed_on.py                                    of write_bundle's target: alone, its encoding, its spec
python passed_on.py --list MODULE:FUNCTION PARAMETER   of another, with the functions and rooms
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "runtime_tests"))

from helpers.functions_of import Modules, read  # noqa: E402
from helpers.passing import Trail  # noqa: E402
from scripts.layout import ROOMS  # noqa: E402

PACKAGES = {"posenc": ROOT / "posenc", "posenc_export": ROOT / "export/posenc_export"}
PARTS = ("encoding", "spec")
"""Attributes that are as good as the whole."""


@dataclass(frozen=True)
class Count:
    """Which functions receive an object, in which rooms, and from where it is passed to a room below."""

    functions: tuple[str, ...]
    rooms: tuple[str, ...]
    climbs: tuple[tuple[str, str], ...]


def count(modules: Modules, start: str, parameter: str, parts: tuple[str, ...] = ()) -> Count:
    """Follow a parameter of a function, MODULE:NAME, alone or with parts of it."""
    trail = Trail(modules, parts)
    trail.follow(start, parameter)
    functions = sorted({callee for _, callee in trail.edges} | {start})
    climbs = sorted({(a, b) for a, b in trail.edges if _floor(b) < _floor(a)})
    return Count(tuple(functions), tuple(sorted({_room(modules, key) for key in functions})), tuple(climbs))


def _room(modules: Modules, key: str) -> str:
    """Return the folder of a function, as a package."""
    module = key.partition(":")[0]
    is_package = any(name.startswith(f"{module}.") for name in modules)
    return module if is_package else module.rpartition(".")[0]


def _floor(key: str) -> int:
    """Return how high a room lies, as imports go: what posenc has comes first."""
    package, _, rest = key.partition(":")[0].partition(".")
    room = rest.partition(".")[0]
    return -1 if package == "posenc" else ROOMS.index(room) if room in ROOMS else len(ROOMS)


def main() -> None:
    """Print the counts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("function", nargs="?", default="posenc_export.proof.exporter.write:write_bundle")
    parser.add_argument("parameter", nargs="?", default="target")
    parser.add_argument("--list", action="store_true", help="name functions, and every passing to a room below")
    words = parser.parse_args()
    modules = read(PACKAGES)
    for parts in ((), *((part,) for part in PARTS)):
        counted = count(modules, words.function, words.parameter, parts)
        name = f"{words.parameter}, or its {parts[0]}" if parts else f"{words.parameter} alone"
        print(
            f"{name}: {len(counted.functions)} functions in {len(counted.rooms)} rooms, "
            f"passed to a room below {len(counted.climbs)} times"
        )
        if words.list:
            print(*(f"  {key}" for key in counted.functions), *(f"  {a} -> {b}" for a, b in counted.climbs), sep="\n")


if __name__ == "__main__":
    main()
