"""What exporters change of a module, they change on a copy: the live module stays as it is, bit for bit."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from helpers.shared import one_of_each
from posenc.joins.apply_rotary import ApplyRotary
from posenc.sincos import AngleAddition
from posenc.spec import Spec
from posenc_export.bundle.case import Case
from posenc_export.common.arrays import to_torch
from posenc_export.proof.exporter import ExportOptions, write_bundle
from posenc_export.write.formats import ROTARY_OPS
from posenc_export.write.formats.onnx.rotary_op import RotaryOperator, with_rotary_op
from posenc_export.write.formats.rewriting import rewritten, shallow_copy
from posenc_export.write.targets.feeds import feeds_for
from posenc_export.write.targets.scheme import scheme_target

SCHEMES: list[tuple[str, Mapping[str, Any], Any]] = [
    ("rope", {"head_dim": 16}, "explicit"),
    ("rope_2d", {"head_dim": 16}, "implicit"),
    ("xpos", {"head_dim": 16}, "offset"),
]
EXPORTS = [*(("onnx", op) for op in ROTARY_OPS if op != "microsoft-mrope"), ("pt2", "decomposed")]


def state(module: nn.Module) -> dict[str, tuple[Any, ...]]:
    """Every module, buffer, parameter and plain attribute by name: what is no plain value, by identity."""
    seen: dict[str, tuple[Any, ...]] = {}
    for prefix, part in module.named_modules(remove_duplicate=False):
        seen[prefix] = (id(part), type(part), tuple((name, id(child)) for name, child in part._modules.items()))
        for name, value in [*part._buffers.items(), *part._parameters.items()]:
            assert value is not None
            seen[f"{prefix}.{name}"] = (id(value), value.data_ptr(), value._version)
        for name, value in vars(part).items():
            if isinstance(value, (bool, int, float, str)):
                seen[f"{prefix}:{name}"] = (value,)
    return seen


def methods_of(module: nn.Module) -> nn.ModuleList:
    """The sincos methods of a rotary module's axes."""
    methods = module.get_submodule("angles.methods")
    assert isinstance(methods, nn.ModuleList)
    return methods


def outputs(module: nn.Module, inputs: list[Tensor]) -> list[Tensor]:
    with torch.no_grad():
        return list(module(*inputs))


@pytest.mark.exhaustive
@pytest.mark.parametrize(("scheme", "params", "positions"), one_of_each(SCHEMES, lambda _: ""))
def test_exports_leave_the_live_module_as_it_is(
    tmp_path: Path, scheme: str, params: Mapping[str, Any], positions: Any
) -> None:
    target = scheme_target(scheme, Spec("dynamic", "exact", positions, 70), params, 0)
    encoding, module = target.encoding, target.encoding.module
    sizes = {"batch": 2, "head": 3, "head_kv": 1, "seq": 9, "height": 4, "width": 5}
    feeds = feeds_for(encoding.inputs, Case("call", sizes, 3), 0)
    inputs = [to_torch(feeds[port.name]) for port in encoding.inputs]
    before, bits = state(module), outputs(module, inputs)
    for format_, op in EXPORTS:
        folder = tmp_path / f"{format_}-{op}"
        folder.mkdir()
        options = ExportOptions((format_,), opset=max(20, ROTARY_OPS[op]), rotary_op=op, validate=False)
        write_bundle(target, options, folder)
        assert state(module) == before, (format_, op)
        for now, then in zip(outputs(module, inputs), bits, strict=True):
            assert torch.equal(now, then), (format_, op)


@pytest.mark.parametrize(("scheme", "params", "positions"), SCHEMES)
@pytest.mark.parametrize("op", ["onnx", "microsoft"])
def test_a_copy_shares_its_buffers_and_has_other_parts(
    scheme: str, params: Mapping[str, Any], positions: Any, op: Any
) -> None:
    module = scheme_target(scheme, Spec("dynamic", "exact", positions, 70), params, 0).encoding.module
    copied = with_rotary_op(module, op)
    assert copied is not module
    theirs, ours = dict(copied.named_buffers()), dict(module.named_buffers())
    assert theirs.keys() == ours.keys()
    assert theirs
    assert all(theirs[name] is ours[name] for name in ours)
    assert all(theirs[name].data_ptr() == ours[name].data_ptr() for name in ours)
    kinds = (ApplyRotary, RotaryOperator, AngleAddition)
    plain, operators, additions = ([m for m in copied.modules() if isinstance(m, kind)] for kind in kinds)
    live = [m for m in module.modules() if isinstance(m, AngleAddition)]
    assert (len(plain), len(operators)) == (0, 1)
    assert [id(m) for m in additions] == [id(m) for m in live], "what holds no rotation is no copy"


def test_a_module_that_stands_in_two_places_is_swapped_once() -> None:
    target = scheme_target("rope_2d", Spec("dynamic", "exact", "explicit", 70), {"head_dim": 16}, 0)
    module = target.encoding.module
    methods = methods_of(module)
    assert methods[0] is methods[1], "rows and columns have one sincos method"
    swapped: list[nn.Module] = []

    def swap(part: nn.Module) -> nn.Module:
        if not isinstance(part, AngleAddition):
            return part
        swapped.append(part)
        return shallow_copy(part)

    copied = rewritten(module, swap)
    assert swapped == [methods[0]]
    first, second = methods_of(copied)
    assert first is second
    assert first is not methods[0]
    assert copied.apply_rotary is module.apply_rotary


def test_nothing_to_change_is_no_copy() -> None:
    module = scheme_target("rope", Spec(max_len=40), {"head_dim": 16}, 0).encoding.module
    assert with_rotary_op(module, "decomposed") is module
