"""What `posenc inspect` does with files that are damaged or made to harm: a script, run by hand.

    python runtime_tests/scripts/hostile_files.py made [NAME...]       # files of helpers/hostile_onnx.py
    python runtime_tests/scripts/hostile_files.py mutated COUNT SEED   # files of other exporters, changed at random

The first prints a line for each file, with what it took. The second counts what came of the files, and prints those
that were neither read nor refused in one line; each is read in a process of its own, as the command does it. A file may
take a GiB and 20 seconds.
"""

import json
import multiprocessing
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from helpers.costs import cost_of_inspecting
from helpers.foreign.files import foreign_files
from helpers.hostile_onnx import HOSTILE
from helpers.mutated_onnx import mutated
from posenc.memory import GIB
from posenc_export.common.errors import BadInput, Overloaded
from posenc_export.common.memory_limit import limit_memory
from posenc_export.read.examine import Examining, examine
from posenc_export.read.facts import facts_of
from posenc_export.read.graph.read import read_graph
from posenc_export.read.report.schema import inspection_json, inspection_read

SECONDS, MEMORY = 20, 1


def made(names: Sequence[str]) -> None:
    """Inspect the files that were made to harm."""
    for name in names or HOSTILE:
        with tempfile.TemporaryDirectory() as folder:
            path = HOSTILE[name](Path(folder))
            cost = cost_of_inspecting(path, ["--timeout", str(SECONDS), "--memory", str(MEMORY)])
            executed = "; EXECUTED" if (path.parent / "executed").exists() else ""
            line = (cost.lines or ("",))[0].replace(f"{folder}/", "")[:150]
            took = f"{cost.wall:.1f} s, {cost.cpu:.1f} s of CPU, {cost.peak:.0f} MiB"
            sys.stdout.write(f"{name}: status {cost.status}, {took}{executed}: {line}\n")
            sys.stdout.flush()


def outcome(path: Path) -> str:
    """Return what comes of a file: "read", "stopped", "refused", or what else was raised, and where."""
    try:
        graph = read_graph(path)
        inspection = examine(graph, facts_of(graph, path.name), Examining(path.name, None, SECONDS, lambda _: None))
        inspection_read(json.dumps(inspection_json(inspection), allow_nan=False))
    except BadInput as error:
        return "two lines" if "\n" in str(error) else "refused"
    except (MemoryError, Overloaded):
        return "refused: too much memory"
    except Exception as error:
        trace = error.__traceback__
        while trace is not None and trace.tb_next is not None:
            trace = trace.tb_next
        place = f"{trace.tb_frame.f_code.co_filename.split('/')[-1]}:{trace.tb_lineno}" if trace else ""
        return f"{type(error).__name__} at {place}: {' '.join(str(error).split())[:100]}"
    return "stopped" if inspection.stopped else "read"


def _in_child(path: Path, pipe: Connection) -> None:
    limit_memory(int(MEMORY * GIB), uses_cuda=False)
    pipe.send(outcome(path))


def followed(path: Path) -> str:
    """Return what comes of a file, in a process that ends when its time is over."""
    ours, theirs = multiprocessing.Pipe(duplex=False)
    process = multiprocessing.get_context("fork").Process(target=_in_child, args=(path, theirs))
    process.start()
    theirs.close()
    try:
        return str(ours.recv()) if ours.poll(SECONDS + 2) else "too long"
    except EOFError:
        process.join()
        return f"ended with status {process.exitcode}"
    finally:
        process.kill()
        process.join()


def many(count: int, seed: int) -> None:
    """Inspect files of other exporters with something changed."""
    random, counts, begin = np.random.default_rng(seed), Counter[str](), time.monotonic()
    originals = [path.read_bytes() for path, _ in foreign_files()]
    with tempfile.TemporaryDirectory() as folder:
        for number in range(count):
            path = Path(folder) / "m.onnx"
            path.write_bytes(mutated(originals[int(random.integers(len(originals)))], random))
            word = followed(path)
            counts[word] += 1
            if word not in ("read", "stopped", "refused"):
                sys.stdout.write(f"file {number} of seed {seed}: {word}\n")
                sys.stdout.flush()
    words = ", ".join(f"{number} {word}" for word, number in counts.most_common())
    sys.stdout.write(f"{count} files, seed {seed}, {time.monotonic() - begin:.0f} s: {words}\n")


if __name__ == "__main__":
    if sys.argv[1] == "made":
        made(sys.argv[2:])
    else:
        many(int(sys.argv[2]), int(sys.argv[3]))
