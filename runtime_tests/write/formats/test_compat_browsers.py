"""`posenc compat` on browsers: what it says is what was measured, and of what was not tried it says nothing."""

import onnx
import pytest
from onnx import TensorProto, helper

from helpers.shared import Once, one_of_each, sample_bundle
from posenc_export.write.formats.onnx import read_onnx
from posenc_export.write.formats.onnx.browsers import RUNS_IN, browser_claims
from scripts.compat_table import BROWSERS, cells
from scripts.phones import samples

IN_BROWSERS = list(cells(BROWSERS))


def model(name: str, dtype: int = TensorProto.FLOAT) -> onnx.ModelProto:
    x, y = (helper.make_tensor_value_info(port, dtype, ["n"]) for port in "xy")
    graph = helper.make_graph([helper.make_node(name, ["x"], ["y"])], "g", [x], [y])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)


@pytest.mark.parametrize("name", one_of_each(list(samples()), lambda name: name in ("rope baked", "sine_2d dynamic")))
def test_what_is_claimed_of_browsers_is_what_was_measured(once: Once, name: str) -> None:
    claimed = {claim.runtime: claim for claim in browser_claims(read_onnx(sample_bundle(once, name) / "model.onnx"))}
    for cell in (one for one in IN_BROWSERS if one.file == name):
        loads = claimed[cell.runtime].loads
        assert loads in ("not known", "yes" if cell.good else "no"), (cell, claimed[cell.runtime])


def test_of_browsers_nothing_is_claimed_but_what_was_tried() -> None:
    assert [claim.runtime for claim in browser_claims(model("Abs"))] == list(RUNS_IN)
    assert [claim.loads for claim in browser_claims(model("Abs"))] == ["yes"] * 3
    assert [claim.loads for claim in browser_claims(model("Sin"))] == ["not known"] * 3
    assert browser_claims(model("Sin"))[2].reasons[1] == "posenc validate --runtime browser-jsep BUNDLE tries it"
    assert [claim.loads for claim in browser_claims(model("Abs", TensorProto.DOUBLE))] == ["yes", "no", "yes"]
    assert [claim.loads for claim in browser_claims(model("BitwiseAnd", TensorProto.INT32))][2] == "no"
