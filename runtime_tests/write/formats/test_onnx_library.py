"""What is left out of onnxscript's work changes no file."""

import gc
import weakref
from collections import Counter
from typing import Any

import numpy as np
import onnx_ir as ir
import onnxscript.optimizer
import pytest
from onnxscript.rewriter import _matcher

from posenc_export.write.formats.onnx.library import operators_listed_once, patterns_by_operator


def halves() -> ir.Model:
    """Return a graph that cuts x into halves, and adds them after a cast that does nothing."""
    text = """<ir_version: 8, opset_import: ["" : 18]>
    halves (float[2, 4] x) => (float[2, 2] y) {
        start = Constant <value = int64[1] {0}> ()
        middle = Constant <value = int64[1] {2}> ()
        end = Constant <value = int64[1] {4}> ()
        axis = Constant <value = int64[1] {1}> ()
        left = Slice (x, start, middle, axis)
        right = Slice (x, middle, end, axis)
        same = Cast <to = 1> (left)
        y = Add (same, right)
    }"""
    return ir.from_onnx_text(text)


def optimized() -> Counter[str]:
    """Return the operators of that graph after the optimizer."""
    model = halves()
    onnxscript.optimizer.optimize_ir(model)
    return Counter(node.op_type for node in model.graph)


def test_the_optimizer_finds_the_same(monkeypatch: Any) -> None:
    plain = optimized()
    assert plain["Cast"] == 0
    tried: list[tuple[object, object]] = []
    real = _matcher.SimplePatternMatcher.match

    def match(self: Any, model: Any, graph: Any, node: Any, **options: Any) -> Any:
        tried.append((self.pattern.output_nodes[0].op_identifier(), node.op_identifier()))
        return real(self, model, graph, node, **options)

    monkeypatch.setattr(_matcher.SimplePatternMatcher, "match", match)
    optimized()
    assert any(pattern and pattern != node for pattern, node in tried), "it tries every pattern at every node"
    tried.clear()
    with patterns_by_operator():
        assert optimized() == plain
    assert tried
    assert all(pattern is None or pattern == node for pattern, node in tried)
    assert _matcher.SimplePatternMatcher.__dict__["match"] is match


def test_patterns_forget_the_graph_that_they_were_tried_on() -> None:
    """A pattern is kept for as long as the process runs, and so were the weights of the last model."""
    with patterns_by_operator():
        model = halves()
        onnxscript.optimizer.optimize_ir(model)
    graph = weakref.ref(model.graph)
    del model
    gc.collect()
    assert graph() is None


def test_operators_are_listed_once_and_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """torch lists them for each library that has registered any."""
    from torch._export import utils

    usual, listed = utils._collect_all_valid_cia_ops(), list[object]()
    real = utils._materialize_cpp_cia_ops
    monkeypatch.setattr(utils, "_materialize_cpp_cia_ops", lambda: listed.append(real()))
    assert utils._collect_all_valid_cia_ops() == usual
    assert len(listed) > 1
    listed.clear()
    with operators_listed_once():
        assert utils._collect_all_valid_cia_ops() == usual
        assert utils._collect_all_valid_cia_ops() == usual
    assert len(listed) == 1


def test_transposed_weights_are_written_in_their_order(tmp_path: Any) -> None:
    from posenc_export.write.formats.onnx import _save

    model = halves()
    array = np.arange(6, dtype=np.float32).reshape(2, 3).T
    value = ir.Value(name="weight", const_value=ir.Tensor(array, name="weight"), shape=ir.Shape([3, 2]))
    model.graph.register_initializer(value)
    _save(model, tmp_path / "model.onnx")
    (weight,) = [one for one in ir.load(tmp_path / "model.onnx").graph.initializers.values() if one.name == "weight"]
    assert weight.const_value is not None
    np.testing.assert_array_equal(weight.const_value.numpy(), array)
