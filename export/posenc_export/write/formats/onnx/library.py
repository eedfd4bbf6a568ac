"""What onnxscript does at every export, and nobody needs: two fifths of what torch.onnx takes for a large model.

torch.onnx fills its registry from onnxscript's library at each export. For that onnxscript parses the source of five
hundred functions (0.8 s), though only the name of their domain is read. This file gives that name alone.

Then onnxscript's optimizer tries each of its patterns at each node. For a pattern of two outputs it makes a list of all
nodes every time, before it looks at the one (9 of 11 s for 24 layers). Here it looks first. And each pattern keeps the
last graph that it was tried on, with all weights, for as long as the process runs. Here it forgets it.

And torch goes through all operators of its own once for each set of operators that any library registered, twice in an
export: 60 ms, a twentieth of a small one. Nothing registers operators meanwhile, so once is enough.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from posenc.libraries import replaced

Function = Any
"""A function of the library, or their class: their types do not have the attributes that are changed."""


class Signature:
    """A function of the library: its domain is known at once, its source is parsed for anything else."""

    def __init__(self, function: Function, read: Callable[[Function], object]) -> None:
        self._function, self._read = function, read

    @property
    def domain(self) -> str:
        """The domain of the opset that the function belongs to."""
        return str(self._function.opset.domain)

    def __getattr__(self, name: str) -> object:
        return getattr(self._read(self._function), name)


@contextmanager
def sources_unread() -> Iterator[None]:
    """Have torch.onnx fill its registry without parsing five hundred functions."""
    import onnxscript

    traced: Function = onnxscript.TracedOnnxFunction
    read = traced.function_ir.fget
    with replaced(traced, "function_ir", property(lambda function: Signature(function, read))):
        yield


@contextmanager
def patterns_by_operator() -> Iterator[None]:
    """Have onnxscript's optimizer try a pattern only where its first operator is, and forget the graph afterwards."""
    try:
        from onnxscript.rewriter import _basics, _matcher
    except ImportError:  # a release that has them elsewhere is merely slow
        yield
        return
    matcher: Any = _matcher.SimplePatternMatcher
    real = matcher.match
    before: dict[Any, dict[str, object]] = {}

    def match(self: Any, model: object, graph: object, node: Any, **options: object) -> object:
        operator = self.pattern.output_nodes[0].op_identifier()
        if operator is not None and operator != node.op_identifier():
            return _basics.MatchResult().fail("another operator", node)
        before.setdefault(self, dict(vars(self)))
        return real(self, model, graph, node, **options)

    with replaced(matcher, "match", match):
        try:
            yield
        finally:
            for pattern, state in before.items():
                vars(pattern).clear()
                vars(pattern).update(state)


@contextmanager
def operators_listed_once() -> Iterator[None]:
    """Have torch look through its operators once while the context lasts, and not for each set of others again."""
    from torch._export import utils

    names: Any = utils
    if not hasattr(names, "_materialize_cpp_cia_ops"):  # a release that has it elsewhere is merely slow
        yield
        return
    with replaced(names, "_materialize_cpp_cia_ops", cache(names._materialize_cpp_cia_ops)):
        yield
