"""Biases within a window, beside the modules of transformers, and values of timm 1.0.31 in `data/timm_windows.npz`."""

import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import posenc
from helpers.shared import Cli
from posenc.encoding import CaseLike
from posenc.ports import Array
from posenc.sources.window.encode import indices
from posenc.spec import Mode, Spec, UnsupportedSpec
from posenc_export.bundle.case import Case
from posenc_export.proof.exporter import ExportOptions, export_target
from posenc_export.write.targets.scheme import scheme_target

TIMM = Path(__file__).parents[1] / "data" / "timm_windows.npz"
MODES: tuple[Mode, ...] = ("baked", "dynamic")
SIDES = ((7, 7), (4, 6))


def timm(name: str) -> dict[str, Array]:
    """Return the arrays of a case: RelPosBias's table, index and bias, or RelPosMlp's weights and bias."""
    arrays = np.load(TIMM)
    return {key.partition("/")[2].replace("__", "."): arrays[key] for key in arrays if key.startswith(f"{name}/")}


def saved(tensors: dict[str, Tensor], path: Path) -> str:
    torch.save(tensors, path)
    return str(path)


# ---- a table ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sides", SIDES)
def test_the_bias_of_timm(tmp_path: Path, sides: tuple[int, int]) -> None:
    golden = timm("swin_bias_{}x{}".format(*sides))
    weights = saved({"table": torch.from_numpy(golden["table"])}, tmp_path / "w.pt")
    ours = posenc.build("swin_bias", window=sides, weights=weights)
    np.testing.assert_array_equal(indices(sides), golden["index"])
    np.testing.assert_array_equal(torch.jit.script(ours.module)().detach().numpy(), golden["bias"])
    np.testing.assert_array_equal(ours.reference({}, None)["bias"], golden["bias"])


@pytest.mark.parametrize("sides", [(7, 7), (4, 6), (1, 3), (1, 1)])
def test_the_bias_of_swin(sides: tuple[int, int]) -> None:
    swin = pytest.importorskip("transformers.models.swin.modeling_swin").SwinRelativePositionBias
    ours = posenc.build("swin_bias", heads=3, window=sides)
    table: Any = ours.module.table
    theirs = swin(3, sides)
    theirs.relative_position_bias_table.data.copy_(table.data)
    assert torch.equal(ours.module(), theirs())


@pytest.mark.parametrize("side", [1, 2, 5])
def test_the_bias_of_beit(side: int) -> None:
    beit = pytest.importorskip("transformers.models.beit.modeling_beit").BeitRelativePositionBias
    theirs = beit(SimpleNamespace(image_size=4 * side, patch_size=4, num_attention_heads=2))
    ours = posenc.build("swin_bias", heads=2, window=side, class_token=True)
    table: Any = ours.module.table
    theirs.relative_position_bias_table.data.copy_(table.data)
    assert torch.equal(ours.module(), theirs((side, side)))
    np.testing.assert_array_equal(ours.reference({}, None)["bias"], theirs((side, side)).detach().numpy())


def test_scores_with_the_bias() -> None:
    ours = posenc.build("swin_bias", heads=2, window=(2, 3), output="scores")
    module: Any = ours.module
    scores = torch.randn(3, 2, 6, 6)
    assert torch.equal(torch.jit.script(module)(scores), scores + module.bias())
    expected = ours.reference({"scores": scores.numpy()}, None)["biased"]
    assert float(np.abs(expected - module(scores).detach().numpy()).max()) < 1e-6


# ---- a network -------------------------------------------------------------------------------------------------------


def network_of_timm(golden: dict[str, Array], path: Path) -> str:
    return saved({f"rel_pos.{k}": torch.from_numpy(v) for k, v in golden.items() if k.startswith("mlp")}, path)


def called(encoding: posenc.Encoding, mode: Mode, sides: tuple[int, int]) -> tuple[Tensor, Array]:
    """Return what the script of a module gives, and the reference."""
    x = torch.zeros(2, *sides, 5)
    with torch.no_grad():
        bias: Tensor = torch.jit.script(encoding.module)(*((x,) if mode == "dynamic" else ()))
    return bias.detach(), encoding.reference({"x": x.numpy()}, None)["bias"]


def case_of(sides: tuple[int, int]) -> CaseLike:
    return Case("one", {"batch": 2, "height": sides[0], "width": sides[1], "channels": 5}, max_position=max(sides) - 1)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("trained", [0, 12])
@pytest.mark.parametrize("sides", SIDES)
def test_the_network_of_timm(tmp_path: Path, sides: tuple[int, int], trained: int, mode: Mode) -> None:
    golden = timm("cpb_swin_{}x{}_pre{}".format(*sides, trained))
    weights = network_of_timm(golden, tmp_path / "w.pt")
    ours = posenc.build("swin_cpb", Spec(mode), window=sides, pretrained_window=trained, weights=weights)
    bias, reference = called(ours, mode, sides)
    assert float(np.abs(bias.numpy() - golden["bias"]).max()) <= 2e-6  # 16 sigmoid(...) has ulps of 9.5e-7
    assert float(np.abs(reference - golden["bias"]).max()) <= 2e-6
    tolerance = ours.tolerance(case_of(sides))
    assert float(np.abs(bias.numpy() - reference).max()) <= tolerance.atol
    assert tolerance.atol < (1e-6 if mode == "baked" else 3e-5)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("trained", [(0, 0), (12, 12)])
def test_the_attention_of_swin_v2(tmp_path: Path, trained: tuple[int, int], mode: Mode) -> None:
    """Of tokens that are all 0 its scores are the bias alone, and its weights the softmax of that."""
    swin = pytest.importorskip("transformers.models.swinv2.modeling_swinv2").Swinv2SelfAttention
    config = SimpleNamespace(qkv_bias=False, attention_probs_dropout_prob=0.0)
    theirs = swin(config, 6, 3, [4, 5], trained).eval()
    weights = saved({f"blocks.0.{k}": v for k, v in theirs.state_dict().items()}, tmp_path / "w.pt")
    key = "blocks.0.continuous_position_bias_mlp"
    ours = posenc.build("swin_cpb", Spec(mode), window=(4, 5), pretrained_window=trained, weights=weights, key=key)
    (_, attention) = theirs(torch.zeros(1, 20, 6), output_attentions=True)
    bias, _ = called(ours, mode, (4, 5))
    assert bias.shape == (1, 3, 20, 20)
    assert float((bias.softmax(-1) - attention).abs().max()) < 1e-6


def test_other_windows_than_the_network_was_trained_with() -> None:
    ours = posenc.build("swin_cpb", Spec("dynamic"), heads=2, hidden=8, pretrained_window=6)
    for sides in ((1, 1), (1, 7), (7, 1), (3, 8), (16, 16)):
        bias, reference = called(ours, "dynamic", sides)
        assert bias.shape == (1, 2, sides[0] * sides[1], sides[0] * sides[1])
        assert float(np.abs(bias.numpy() - reference).max()) <= ours.tolerance(case_of(sides)).atol


def test_a_window_of_one_row_or_column_has_numbers() -> None:
    ours = posenc.build("swin_cpb", Spec("dynamic"), heads=2, hidden=8)
    for sides in ((1, 1), (1, 7), (7, 1)):
        bias, reference = called(ours, "dynamic", sides)
        assert float(np.abs(bias.numpy() - reference).max()) <= ours.tolerance(case_of(sides)).atol


# ---- wrong -----------------------------------------------------------------------------------------------------------


@pytest.mark.exhaustive
def test_a_wrong_twin_is_refused(tmp_path: Path) -> None:
    """Columns of the table go by the height: right in squares alone."""
    target = scheme_target("swin_cpb", Spec("dynamic", max_len=20), {"heads": 2, "hidden": 8}, 0)
    module: Any = target.encoding.module

    class Swapped(type(module)):  # type: ignore[misc]
        def forward(self, x: Tensor) -> Tensor:
            bias: Tensor = super().forward(x.transpose(1, 2))
            return bias

    module.__class__ = Swapped
    twin = replace(target, encoding=replace(target.encoding, module=module))
    result = export_target(lambda: twin, ExportOptions(formats=("onnx",)), tmp_path / "bundle")
    assert any(v.check == "agrees" and "against reference" in v.detail for v in result.verdicts if v.status == "fail")


def bad(tmp_path: Path) -> dict[str, tuple[str, dict[str, Any], str]]:
    table = saved({"table": torch.randn(169, 3)}, tmp_path / "table.pt")
    half = saved({"cpb_mlp.0.weight": torch.randn(8, 2), "cpb_mlp.0.bias": torch.randn(8)}, tmp_path / "half.pt")
    layers = {"0.weight": torch.randn(8, 2), "0.bias": torch.randn(8), "2.weight": torch.randn(3, 8)}
    one = saved({f"cpb_mlp.{k}": v for k, v in layers.items()}, tmp_path / "one.pt")
    two = saved({f"{i}.cpb_mlp.{k}": v for i in (0, 1) for k, v in layers.items()}, tmp_path / "two.pt")
    unlike = saved({f"cpb_mlp.{k}": v for k, v in {**layers, "0.bias": torch.randn(7)}.items()}, tmp_path / "u.pt")
    return {
        "no window": (
            "swin_bias",
            {"window": 0},
            "window must be rows and columns of at least 1, or one number for both",
        ),
        "three sides": ("swin_cpb", {"window": (1, 2, 3)}, "window must be rows and columns of at least 1"),
        "no heads": ("swin_bias", {"heads": 0}, "heads must be at least 1, got 0"),
        "no units": ("swin_cpb", {"hidden": 0}, "hidden must be at least 1, got 0"),
        "key alone": ("swin_bias", {"key": "table"}, "give weights=FILE beside key=table"),
        "std": ("swin_bias", {"std": 0.0}, "std must be a finite number above 0, got 0.0"),
        "trained": (
            "swin_cpb",
            {"pretrained_window": 1},
            "pretrained_window must be sides of at least 2, or 0 (no pretraining)",
        ),
        "rows": ("swin_bias", {"weights": table, "window": 8}, "(differences, heads) = (225, 3), got (169, 3)"),
        "class": (
            "swin_bias",
            {"weights": table, "class_token": True},
            "(differences, heads) = (172, 3), got (169, 3)",
        ),
        "columns": (
            "swin_bias",
            {"weights": table, "heads": 4},
            "(differences, heads) = (169, 4), got (169, 3)",
        ),
        "missing key": ("swin_bias", {"weights": table, "key": "tab"}, "it has no 'tab'"),
        "no network": ("swin_cpb", {"weights": half}, "networks of such a bias: none"),
        "two networks": (
            "swin_cpb",
            {"weights": two},
            "no key was given; networks of such a bias: 0.cpb_mlp, 1.cpb_mlp",
        ),
        "no such network": ("swin_cpb", {"weights": two, "key": "2.cpb_mlp"}, "none of them is '2.cpb_mlp'"),
        "other heads": ("swin_cpb", {"weights": one, "heads": 4}, "cpb_mlp.2.weight must be (heads, hidden) = (4, 8)"),
        "other units": ("swin_cpb", {"weights": one, "hidden": 9}, "cpb_mlp.0.weight must be (hidden, 2) = (9, 2)"),
        "unlike units": ("swin_cpb", {"weights": unlike}, "cpb_mlp.0.bias must be (hidden) = (8,)"),
        "too large": ("swin_bias", {"window": 2000}, "GiB are free"),
    }


def test_bad_input_is_one_line(tmp_path: Path) -> None:
    for case, (name, parameters, words) in bad(tmp_path).items():
        with pytest.raises(ValueError, match=re.escape(words)) as caught:
            posenc.build(name, **parameters)
        assert "\n" not in str(caught.value), case


def test_forms_that_there_are_not() -> None:
    for name in ("swin_bias", "swin_cpb"):
        with pytest.raises(UnsupportedSpec, match="output=scores does not say how wide a window is"):
            posenc.build(name, Spec("dynamic"), output="scores")


def test_the_command_line_says_it_in_one_line(cli: Cli, tmp_path: Path) -> None:
    run = cli("export", "swin_bias", "-p", "window=7,0", "-o", str(tmp_path / "x"))
    assert run.exit_code == 2
    assert "window must be rows and columns of at least 1, or one number for both, got 7,0" in run.output
