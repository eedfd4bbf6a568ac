"""Which encodings of a file are rewritten, and which one is meant where they differ."""

from __future__ import annotations

from collections.abc import Sequence

from posenc_export.common.errors import BadInput
from posenc_export.read.graph import Graph
from posenc_export.read.interpret.run import interpret
from posenc_export.read.interpret.sizes import default_sizes
from posenc_export.read.recognise.encodings import encodings_of
from posenc_export.read.recognise.named import Named
from posenc_export.read.values import Run

UNKNOWN = "not recognised"


def encodings_in(graph: Graph, last: int | None) -> tuple[Run, list[Named]]:
    """Return a graph's interpretation, and the encodings that have a name.

    Args:
        graph: as it was read.
        last: the last right length; None where no end was met.
    """
    run = interpret(graph)
    named = _named(run)
    # a branch of an If that long calls take has tables of its own
    inside = any(name not in graph.constants for encoding in named for name in encoding.stored)
    if inside and last is not None:
        return run, _named(interpret(graph, default_sizes(graph, {"length": last})))
    return run, named


def _named(run: Run) -> list[Named]:
    return [encoding for encoding in encodings_of(run) if encoding.form.family != UNKNOWN]


def chosen(named: Sequence[Named], wanted: str | None) -> list[Named]:
    """Return the encodings that are meant; BadInput, in one line, where there are none, or where that is not clear.

    Args:
        named: those of the file.
        wanted: a tensor, a node or a family that tells one of them; None for all, where they are of one kind.
    """
    if not named:
        raise BadInput("no positional encoding was recognised: posenc inspect says what was read")
    if wanted is not None:
        meant = [encoding for encoding in named if wanted in _names(encoding)]
        if not meant:
            raise BadInput(f"--encoding {wanted} names none of them: {_listed(named)}")
        return meant
    if len({encoding.form.family for encoding in named}) > 1:
        raise BadInput(f"several encodings: say which one is meant by --encoding NAME: {_listed(named)}")
    return list(named)


def check_one(meant: Sequence[Named]) -> None:
    """Raise BadInput where a new scaling would go to encodings that differ."""
    kinds = {(encoding.form.name, str(encoding.form.parameters)) for encoding in meant}
    if len(kinds) > 1:
        raise BadInput(f"several encodings: say which one --rope-type is for, by --encoding NAME: {_listed(meant)}")


def _names(encoding: Named) -> set[str]:
    return {encoding.form.family, *encoding.stored, *encoding.nodes, *encoding.tensors}


def _listed(named: Sequence[Named]) -> str:
    return "; ".join(f"{n.form.family} ({n.form.name}) at {next(iter((*n.stored, *n.nodes)), '?')}" for n in named)
