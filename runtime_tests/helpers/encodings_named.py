"""The encodings that recognisers name in a file."""

from __future__ import annotations

from pathlib import Path

from posenc_export.read.graph.read import read_graph
from posenc_export.read.interpret.run import interpret
from posenc_export.read.recognise.encodings import encodings_of
from posenc_export.read.recognise.named import Named


def named(path: Path, sequence: int | None = None) -> list[Named]:
    """Return the encodings of a file at usual sizes, or at a number of tokens or samples."""
    run = interpret(read_graph(path), None if sequence is None else {"sequence": sequence})
    assert run.stopped is None
    return encodings_of(run)
