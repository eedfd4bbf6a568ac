"""Is a bundle whole wherever its replacement is killed? A script, run by hand after a change of bundle/replacement.py.

    python runtime_tests/scripts/kill_points.py        # every point; prints the table of docs/reference/replacement.md
    python runtime_tests/scripts/kill_points.py --every 9  # a sample

A step is a call that changes something: a folder that is made, a file that is written, a lock, a rename, the exchange,
a removal. A process replaces a bundle and kills itself (SIGKILL) before a step, in the middle of one that writes, or
after it. Then the place is looked at; then the next run comes, and it is looked at again. Exit status 1 where anything
is not whole.
"""

import argparse
import json
import platform
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from functools import partial
from hashlib import sha256
from pathlib import Path

from posenc_export.bundle.replacement import install, staged
from posenc_export.bundle.seal import sealed_text

sys.path.insert(0, str(Path(__file__).parents[1]))

from scripts.killed import RECORD, Steps, in_child

BODIES = ("golden.npz", "model.onnx", "cpp/CMakeLists.txt", "cpp/golden/case.x.bin", "cpp/session/session.hpp")
MOMENTS = ("before", "middle", "after")


@dataclass(frozen=True)
class Scenario:
    """A replacement: whether folders can be exchanged, what is at which place before, and a run killed before it.

    at_once, later: what may be at the place at once, and after the next run.
    """

    name: str
    exchange: bool
    place: str = "b"
    there: str = "old"
    killed_before: tuple[str, str] | None = None
    at_once: tuple[str, ...] = ("old", "new")
    later: tuple[str, ...] = ("old", "new")


GAP, SWAP = ("rename b", "after"), ("exchange", "after")
NEW, NEW_OR_NOT, ANY = ("new",), ("nothing", "new"), ("old", "new", "nothing")
SCENARIOS = (
    Scenario("a bundle is replaced, by exchange", True),
    Scenario("a bundle is replaced, by two renames", False, at_once=ANY),
    Scenario("a bundle is put where none was", True, there="nothing", at_once=NEW_OR_NOT, later=NEW_OR_NOT),
    Scenario("a failed bundle is replaced, by exchange", True, "b-failed"),
    Scenario("a failed bundle is replaced, by two renames", False, "b-failed", at_once=ANY),
    Scenario("after a run killed between two renames", False, killed_before=GAP, at_once=ANY),
    Scenario("after a run killed just after its exchange", True, killed_before=SWAP, at_once=NEW, later=NEW),
)


def contents(version: str) -> dict[str, str]:
    """Return the files of a small bundle."""
    bodies = {name: f"{version} {name}\n" * 20 for name in BODIES}
    listed = [{"file": n, "bytes": len(t), "sha256": sha256(t.encode()).hexdigest()} for n, t in bodies.items()]
    manifest = {
        **{"schema_version": 2, "scheme": version, "params": {}, "mode": "baked", "max_len": 4, "dtype": "float32"},
        **{"opset": 18, "ir_version": 8, "inputs": [], "outputs": [], "cases": [], "versions": {}},
        **{"artifacts": [{**listed[1], "format": "onnx"}], "files": [listed[0], *listed[2:]]},
    }
    described = json.dumps(manifest)
    digests = {
        name: sha256(text.encode()).hexdigest() for name, text in (("manifest", described), ("markdown", version))
    }
    report = sealed_text({f"{name}_sha256": digest for name, digest in digests.items()})
    return {**bodies, "manifest.json": described, "report.json": report, "report.md": version}


def write(folder: Path, version: str) -> None:
    for name, text in contents(version).items():
        if not (folder / name).parent.exists():
            (folder / name).parent.mkdir(parents=True)
        (folder / name).write_text(text, encoding="utf-8")


def state(place: Path) -> str:
    """Return which version lies whole at a place, "nothing", or "BROKEN"."""
    if not place.exists():
        return "nothing"
    found = {p.relative_to(place).as_posix(): p.read_text("utf-8") for p in place.rglob("*") if p.is_file()}
    return next((version for version in ("old", "new", "next") if found == contents(version)), "BROKEN")


def put(target: Path, version: str, place: Path | None = None, force: bool = False) -> None:
    """Do what an export does with its output folder; one that fails puts its bundle at another place."""
    with staged(target) as scratch:
        write(scratch, version)
        install(scratch, place or target, force)


def replace(folder: Path, place: str, version: str) -> None:
    put(folder / "b", version, folder / place)


def settle(folder: Path) -> None:
    """Do what an export does there that writes nothing: one that fails early."""
    with staged(folder / "b"):
        pass


def prepare(folder: Path, scenario: Scenario) -> None:
    for place in ("b", "b-failed"):
        if place != scenario.place or scenario.there != "nothing":
            write(folder / place, "old")
    if scenario.killed_before is not None:
        name, moment = scenario.killed_before
        killed = Steps(moment=moment, kill_name=name)
        assert in_child(folder, lambda: replace(folder, scenario.place, "new"), killed, scenario.exchange)
        assert leftovers(folder)


def leftovers(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.iterdir() if p.name not in ("b", "b-failed", RECORD))


@dataclass(frozen=True)
class Outcome:
    """What a kill left at the place at once, whether beside it, what was there after the next run; what is wrong."""

    at_once: str
    left_something: bool
    later: str
    wrong: tuple[str, ...]


def outcome(folder: Path, scenario: Scenario) -> Outcome:
    """Look at the place after a kill, let the next runs come, and look again."""
    place = folder / scenario.place
    other = folder / {"b": "b-failed", "b-failed": "b"}[scenario.place]
    at_once, left = state(place), bool(leftovers(folder))
    in_child(folder, lambda: settle(folder), Steps(), scenario.exchange)
    later, remain = state(place), leftovers(folder)
    in_child(folder, lambda: replace(folder, scenario.place, "next"), Steps(), scenario.exchange)
    wrong = {
        f"at once {at_once}": at_once not in scenario.at_once,
        f"later {later}": later not in scenario.later,
        f"{at_once} became {later}": at_once not in ("nothing", later),
        f"left for ever: {remain}": bool(remain or leftovers(folder)),
        "not replaced by the next": state(place) != "next",
        "the other place was touched": state(other) != "old",
    }
    return Outcome(at_once, left, later, tuple(text for text, is_so in wrong.items() if is_so))


def points(base: Path, scenario: Scenario) -> list[tuple[int, str, str]]:
    """Return every step of a scenario at every moment: its number, its name, the moment."""
    with tempfile.TemporaryDirectory(dir=base) as text:
        folder = Path(text)
        prepare(folder, scenario)
        assert not in_child(folder, lambda: replace(folder, scenario.place, "new"), Steps(), scenario.exchange)
        names = json.loads((folder / RECORD).read_text("utf-8"))
    return [
        (number, name, moment)
        for number, name in enumerate(names, 1)
        for moment in MOMENTS
        if moment != "middle" or name.startswith("write ")
    ]


def outcomes(base: Path, scenario: Scenario, every: int) -> Iterator[tuple[str, Outcome]]:
    """Kill at every point of a scenario, or at every so many-th; yield the point in words, and what came of it."""
    for number, name, moment in points(base, scenario)[::every]:
        with tempfile.TemporaryDirectory(dir=base) as text:
            folder = Path(text)
            prepare(folder, scenario)
            work = partial(replace, folder, scenario.place, "new")
            assert in_child(folder, work, Steps(number, moment), scenario.exchange), f"{moment} step {number}, {name}"
            yield f"{moment} step {number}, {name}", outcome(folder, scenario)


def row(scenario: Scenario, found: list[Outcome]) -> str:
    """Return a row of the table."""
    at_once, later = Counter(o.at_once for o in found), Counter(o.later for o in found)
    counts = [f"{c['old']} / {c['new']} / {c['nothing']}" for c in (at_once, later)]
    left, wrong = sum(o.left_something for o in found), sum(bool(o.wrong) for o in found)
    return f"| {scenario.name} | {len(found)} | {counts[0]} | {left} | {counts[1]} | {wrong} |"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--every", type=int, default=1, metavar="N", help="Kill at every N-th point. [default: 1]")
    every = parser.parse_args().every
    total = failures = 0
    counts = "right after the kill: old / new / nothing"
    print(f"| what is done | kills | {counts} | left something | after the next run | wrong |")
    print("|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as base:
        for scenario in SCENARIOS:
            found = []
            for point, came in outcomes(Path(base), scenario, every):
                found.append(came)
                for text in came.wrong:
                    print(f"WRONG: {scenario.name}: {point}: {text}", file=sys.stderr)
            print(row(scenario, found), flush=True)
            total, failures = total + len(found), failures + sum(bool(came.wrong) for came in found)
    where = f"{platform.system()} {platform.release().split('-')[0]}, Python {platform.python_version()}"
    print(f"\n{total} kills, {failures} wrong; {date.today().isoformat()}, {where}.")
    return int(failures > 0)


if __name__ == "__main__":
    sys.exit(main())
