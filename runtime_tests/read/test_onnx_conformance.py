"""The ONNX standard's own cases of each operator: computed right by a kernel, or by what stands in for one."""

from collections.abc import Iterable, Sequence

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from helpers.nodes import node_of
from posenc_export.read.kernels import KERNELS, NoKernel, compute
from posenc_export.read.values import Array

OTHERWISE = {
    "test_resize_downsample_scales_linear_align_corners": "ONNX Runtime takes the length as it is rounded",
    "test_resize_downsample_scales_cubic_align_corners": "ONNX Runtime takes the length as it is rounded",
}
"""Cases of which the standard and ONNX Runtime think differently; what a runtime does is what counts here."""
TEXTS = ("test_equal_string", "test_equal_string_broadcast")
TRAINING = "test_training_dropout"
SEQUENCES = "sequences are no arrays"


def as_array(value: object) -> Array:
    if isinstance(value, onnx.TensorProto):
        return numpy_helper.to_array(value)
    if not isinstance(value, np.ndarray | np.generic | int | float):
        raise NotImplementedError(SEQUENCES)
    return np.asarray(value)


def results(model: onnx.ModelProto, values: Sequence[object]) -> list[Array]:
    """Return what is computed for the outputs that the case's node names."""
    proto = model.graph.node[0]
    named = dict(zip((item.name for item in model.graph.input), values, strict=False))
    arrays = [as_array(named[name]) if name in named else None for name in proto.input]
    opsets = {"" if entry.domain == "ai.onnx" else entry.domain: entry.version for entry in model.opset_import}
    computed = compute(node_of(proto), opsets, arrays)
    return [array for name, array in zip(proto.output, computed, strict=True) if name]


def differences(computed: Iterable[Array], values: Sequence[object]) -> list[str]:
    found = []
    for array, value in zip(computed, map(as_array, values), strict=True):
        if (array.dtype, array.shape) != (value.dtype, value.shape):
            found.append(f"{array.dtype}{array.shape} for {value.dtype}{value.shape}")
        elif array.dtype.kind not in "OU" and not np.allclose(
            array.astype(complex), value.astype(complex), rtol=1e-3, atol=2e-5, equal_nan=True
        ):
            found.append(f"{array} for {value}")
    return found


@pytest.mark.exhaustive  # the onnx package makes the cases in 10 s; test_kernels has its own of each operator
@pytest.mark.filterwarnings("ignore")
def test_cases_of_the_standard() -> None:
    from onnx.backend.test.case.node import collect_testcases

    wrong, right = {}, 0
    for case in collect_testcases(None):
        if not case.model or not case.data_sets or len(case.model.graph.node) != 1 or case.name in OTHERWISE:
            continue
        values, expected = case.data_sets[0]
        operator = case.model.graph.node[0].op_type
        try:
            found = differences(results(case.model, values), expected)
        except NotImplementedError:
            continue
        except NoKernel as error:
            # what has no kernel is named as such; an operator that has one computes all but texts and training
            can_refuse = operator not in KERNELS or case.name in TEXTS or case.name.startswith(TRAINING)
            found = [] if can_refuse else [str(error)]
        right += not found
        wrong.update({case.name: found} if found else {})
    assert not wrong
    assert right > 1200  # versions of onnx have more and more
