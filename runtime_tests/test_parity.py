"""Scheme x parameters x mode x method x positions x dtype x format x runtime x length, from the registries."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import onnx
import pytest

from conftest import need, running
from posenc.scheme import SCHEMES, DType, Form, Method, Positions
from posenc_export.bundle.folder import Bundle
from posenc_export.cli.parameters import parameters_of
from posenc_export.exporter import Order, Outcome, export
from posenc_export.formats import FORMATS, OPSETS, ROTARY_OPS
from posenc_export.runtimes import RUNTIMES
from posenc_export.targets.module import resolve
from posenc_export.validation.plan import is_length
from posenc_export.validation.run import Options, validate, worst

MAX_LEN = 70
MODES: list[tuple[Any, Method]] = [("baked", "exact"), ("dynamic", "exact"), ("dynamic", "trig")]
POSITIONS: tuple[Positions, ...] = get_args(Positions)
DTYPES: tuple[DType, ...] = get_args(DType)


LONGROPE = {"rope_type": "longrope", "factor": 2.0, "original_max_position_embeddings": 32}
LONGROPE |= {"short_factor": (1.0,) * 8, "long_factor": (1.0, 1.1, 1.3, 1.5, 2.0, 2.0, 3.0, 4.0)}
SMALL: dict[str, dict[str, Any]] = {
    "sinusoidal": {"d_model": 16},
    "learned": {"d_model": 16},
    "rope": {"head_dim": 16},
    "mrope": {"head_dim": 16, "sections": (4, 2, 2)},
    "rope_2d": {"head_dim": 16},
    "xpos": {"head_dim": 16},
}
MORE: dict[str, list[dict[str, Any]]] = {
    "sinusoidal": [{"d_model": 7}],
    "learned": [{"d_model": 7}],
    "rope": [
        {"rotary_dim": 8},
        {"rotary_dim": 8, "layout": "interleaved", "tensor_layout": "bshd"},
        LONGROPE,
        {"rope_type": "dynamic", "factor": 2.0, "max_position_embeddings": 32},
        {"output": "cos_sin", "width": "full", "layout": "interleaved"},
    ],
    "mrope": [{"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32}],
    "rope_2d": [{"output": "cos_sin", "width": "full"}],
    "xpos": [{"center": "length"}, {"center": 40, "scale_base": 100.0}],
}
"""What a scheme's lists of choices do not show."""
MEANINGLESS = ("width", "rope_type")
"""Choices that mean nothing without others: they are among MORE."""


def variants(scheme: str) -> Iterator[dict[str, Any]]:
    """A small size, each other choice of each parameter that has a list of them, and what those do not show."""
    small = SMALL[scheme]
    yield small
    for parameter in parameters_of(SCHEMES[scheme].build).values():
        if get_origin(parameter.type) is Literal and parameter.name not in MEANINGLESS:
            yield from ({**small, parameter.name: c} for c in get_args(parameter.type) if c != parameter.default)
    yield from ({**small, **more} for more in MORE[scheme])


def has_form(scheme: str, mode: str, positions: str, output: str | None) -> bool:
    """Whether an output exists in a form; what does not is refused: see test_schemes.py and test_rotary_refusals.py."""
    if {mode, positions} & set(SCHEMES[scheme].unsupported):
        return False
    if output == "table":
        return mode == "baked" and positions == "implicit"
    if output == "cos_sin":
        return positions == "explicit" or (positions == "implicit" and mode == "baked" and scheme == "rope")
    return True


ROTARY = ("rope", "mrope", "rope_2d", "xpos")


def dtypes(scheme: str, form: Form, params: dict[str, Any]) -> tuple[DType, ...]:
    """Every dtype of the small size in the default form of positions; of variants, and in other forms, fewer.

    Rotary variants differ in what they do before the last cast, which all share: float32 shows it. In other forms,
    only those count that look at positions in other ways there.
    """
    plain, usual = params == SMALL[scheme], form.positions == SCHEMES[scheme].positions
    if usual:
        return DTYPES if plain else DTYPES[:1] if form.method == "trig" or scheme in ROTARY else DTYPES[:2]
    looks = scheme not in ROTARY or params.get("rope_type") or params.get("center")
    return DTYPES[:1] if plain or (looks and form.method != "trig") else ()


def combinations() -> Iterator[Any]:
    for scheme in SCHEMES:
        for (mode, method), params, positions in product(MODES, variants(scheme), POSITIONS):
            if not has_form(scheme, mode, positions, params.get("output")):
                continue
            in_fp32 = Form(mode, method, positions, MAX_LEN)
            for dtype in dtypes(scheme, in_fp32, params):
                values = "-".join(f"{k}={v}" for k, v in params.items())
                form = replace(in_fp32, dtype=dtype)
                yield pytest.param(scheme, form, params, id=f"{scheme}-{mode}-{method}-{positions}-{dtype}-{values}")


def run(scheme: str, form: Form, params: dict[str, Any], folder: Path, **order: Any) -> Outcome:
    texts = tuple(f"{k}={','.join(map(str, v)) if isinstance(v, tuple) else v}" for k, v in params.items())
    return export(lambda: resolve(scheme, form, texts, (), 0), Order(**order), folder / "bundle")


@pytest.mark.parametrize(("scheme", "form", "params"), list(combinations()))
def test_every_combination_agrees_on_every_runtime(
    tmp_path: Path, scheme: str, form: Form, params: dict[str, Any]
) -> None:
    here = running(Order().formats)
    # Exporting twice, which shows purity and determinism, takes half of the time: once a scheme and mode is enough.
    twice = params == SMALL[scheme] and form.dtype == "fp32"
    outcome = run(scheme, form, params, tmp_path, validate=twice)
    if not twice:
        outcome = replace(outcome, verdicts=tuple(validate(Bundle.open(outcome.folder), Options())))
    assert [(v.subject, v.check, v.detail) for v in outcome.verdicts if v.status == "fail"] == []
    agreements = {v.subject: v for v in outcome.verdicts if v.check == "agrees" and v.status == "pass"}
    assert set(agreements) == here
    lengths = [
        t.case.sizes[a] for t in outcome.manifest.trials for a in t.case.sizes if is_length(a) and not t.case.refused
    ]
    if lengths:
        assert {1, 2, MAX_LEN} <= set(lengths)
        assert max(lengths) > 2 * max(n for a, n in outcome.manifest.trace.items() if is_length(a))
    if form.method == "exact" and (form.mode == "baked" or params.get("rope_type") != "dynamic"):
        for name in {n for n in agreements if RUNTIMES[n].device == "cpu"}:
            eager = worst(agreements[name].trials, "eager")
            assert eager is not None
            assert eager.max_abs == 0, f"{name} does not give the eager bits"


@pytest.mark.parametrize("op", ["onnx", "microsoft"])
@pytest.mark.parametrize(
    ("scheme", "params", "form"),
    [
        ("rope", {}, Form("dynamic", "exact", "explicit", MAX_LEN)),
        ("rope", {}, Form("dynamic", "exact", "offset", MAX_LEN, "fp16")),
        ("rope", {"rotary_dim": 8, "layout": "interleaved"}, Form("baked", "exact", "implicit", MAX_LEN)),
        ("rope", {"tensor_layout": "bshd"}, Form("baked", "exact", "explicit", MAX_LEN, "bf16")),
        ("rope", {"tensor_layout": "bshd"}, Form("dynamic", "exact", "implicit", MAX_LEN)),
        ("mrope", SMALL["mrope"], Form("dynamic", "exact", "explicit", MAX_LEN)),
        ("rope_2d", {}, Form("dynamic", "exact", "implicit", MAX_LEN)),
        ("rope_2d", {"tensor_layout": "bshd"}, Form("baked", "exact", "implicit", MAX_LEN)),
        ("xpos", {}, Form("dynamic", "exact", "offset", MAX_LEN)),
        ("rope", {}, Form("dynamic", "trig", "explicit", MAX_LEN)),
        ("rope", MORE["rope"][3], Form("dynamic", "exact", "explicit", MAX_LEN, "fp16")),
    ],
)
def test_a_fused_operator_is_within_its_stated_tolerance(
    tmp_path: Path, scheme: str, params: dict[str, Any], form: Form, op: Any
) -> None:
    order = {"rotary_op": op, "opset": ROTARY_OPS[op], "formats": ("onnx", "torchscript")}
    outcome = run(scheme, form, {"head_dim": 16, **params}, tmp_path, validate=False, **order)
    verdicts = validate(Bundle.open(outcome.folder), Options())
    assert [(v.subject, v.check, v.detail) for v in verdicts if v.status == "fail"] == []
    graph = onnx.load(outcome.folder / "model.onnx").graph
    assert [n.domain for n in graph.node if n.op_type == "RotaryEmbedding"] == [
        {"onnx": ""}.get(op, "com.microsoft")
    ] * 2
    by_format = {a.format: a.parity for a in outcome.manifest.artifacts}
    assert by_format["onnx"] is not None
    assert by_format["onnx"].vector == 2 * 2.0**-23
    assert by_format["torchscript"] is None
    refusals = [v.subject for v in verdicts if v.check == "refusal" and v.status == "pass"]
    assert ("ort-cpu" in refusals) == any(t.case.refused for t in outcome.manifest.trials)


@pytest.mark.parametrize("opset", OPSETS)
@pytest.mark.parametrize("mode", ["baked", "dynamic"])
def test_every_opset(tmp_path: Path, opset: int, mode: Any) -> None:
    form = Form(mode, "exact", "explicit", MAX_LEN)
    outcome = run("sinusoidal", form, {"d_model": 8}, tmp_path, formats=("onnx",), opset=opset)
    assert not outcome.failed, outcome.verdicts
    assert outcome.manifest.opset == opset
    assert outcome.manifest.ir_version <= 10


def test_the_self_adjusting_width(tmp_path: Path) -> None:
    for positions in POSITIONS:
        form = Form("dynamic", "trig", positions, MAX_LEN)
        outcome = run("sinusoidal", form, {"d_model": "auto"}, tmp_path / positions)
        assert not outcome.failed, outcome.verdicts
        widths = {t.case.sizes["dim"] for t in outcome.manifest.trials}
        assert len(widths) >= 3
        assert any(w % 2 for w in widths)


@pytest.mark.parametrize("max_len", [3, 4, 11, 12])
def test_a_table_of_few_rows(tmp_path: Path, max_len: int) -> None:
    outcome = run("sinusoidal", Form(max_len=max_len), {"d_model": 6}, tmp_path)
    assert not outcome.failed, outcome.verdicts


def test_what_a_scheme_calls_unsupported_is_refused(tmp_path: Path) -> None:
    modes = {"baked", "dynamic"}
    for scheme in SCHEMES.values():
        for mode in modes & set(scheme.unsupported):
            form = Form(mode, "exact", None, MAX_LEN)  # type: ignore[arg-type]
            with pytest.raises(Exception, match=scheme.name):
                run(scheme.name, form, {}, tmp_path)


def test_external_data_past_the_size_of_a_protobuf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("posenc_export.formats.onnx.EXTERNAL_DATA_ABOVE", 1000)
    outcome = run("sinusoidal", Form(max_len=64), {"d_model": 16}, tmp_path, formats=("onnx",))
    assert not outcome.failed, outcome.verdicts
    assert [(a.format, a.file) for a in outcome.manifest.artifacts] == [
        ("onnx", "model.onnx"),
        ("onnx.data", "model.onnx.data"),
    ]
    assert (outcome.folder / "model.onnx").stat().st_size < 10_000
    bundle = outcome.folder.rename(tmp_path / "a folder with spaces")
    assert all(v.status != "fail" for v in validate(Bundle.open(bundle), Options()))


@pytest.mark.parametrize("name", list(RUNTIMES))
def test_a_runtime_runs_here_or_says_why_not(name: str) -> None:
    need(name)


def test_every_format_has_a_runtime() -> None:
    assert {r.format for r in RUNTIMES.values()} == set(FORMATS)
