"""Scheme x parameters x mode x method x positions x dtype x format x runtime x length, from the registries."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import pytest

from posenc.scheme import SCHEMES, DType, Form, Method, Positions
from posenc_export.exporting import Order, Outcome, export
from posenc_export.formats import FORMATS, OPSETS
from posenc_export.parameters import parameters_of
from posenc_export.runtimes import RUNTIMES, Missing
from posenc_export.subject import resolve
from posenc_export.validate import worst

MAX_LEN = 70
MODES: list[tuple[Any, Method]] = [("baked", "exact"), ("dynamic", "exact"), ("dynamic", "trig")]
POSITIONS: tuple[Positions, ...] = get_args(Positions)
DTYPES: tuple[DType, ...] = get_args(DType)


def variants(scheme: str) -> Iterator[dict[str, Any]]:
    """The defaults, an odd width, and each other choice of each parameter that has a list of them."""
    known = parameters_of(SCHEMES[scheme].build)
    width = {"d_model": 16} if "d_model" in known else {}
    yield width
    if width:
        yield {"d_model": 7}
    for parameter in known.values():
        if get_origin(parameter.type) is Literal:
            yield from ({**width, parameter.name: c} for c in get_args(parameter.type) if c != parameter.default)


def combinations() -> Iterator[Any]:
    for scheme in SCHEMES:
        for mode, method in MODES:
            if mode in SCHEMES[scheme].unsupported:
                continue
            for params in variants(scheme):
                for positions in POSITIONS:
                    plain = len(params) <= 1 and params.get("d_model") == 16
                    for dtype in DTYPES if plain else DTYPES[:2]:
                        if params.get("output") == "table" and (mode == "dynamic" or positions != "implicit"):
                            continue  # a constant: refused, and tested so in test_schemes.py
                        form = Form(mode, method, positions, MAX_LEN, dtype)
                        told = "-".join(f"{k}={v}" for k, v in params.items())
                        yield pytest.param(
                            scheme, form, params, id=f"{scheme}-{mode}-{method}-{positions}-{dtype}-{told}"
                        )


def run(scheme: str, form: Form, params: dict[str, Any], folder: Path, **order: Any) -> Outcome:
    texts = tuple(f"{k}={v}" for k, v in params.items())
    return export(lambda: resolve(scheme, form, texts, (), 0), Order(**order), folder / "bundle")


def available(name: str) -> bool:
    try:
        RUNTIMES[name].check()
    except Missing:
        return False
    return True


RUNNING = [name for name in RUNTIMES if available(name)]


@pytest.mark.parametrize(("scheme", "form", "params"), list(combinations()))
def test_every_combination_agrees_on_every_runtime(
    tmp_path: Path, scheme: str, form: Form, params: dict[str, Any]
) -> None:
    outcome = run(scheme, form, params, tmp_path)
    assert [(v.subject, v.check, v.detail) for v in outcome.verdicts if v.status == "fail"] == []
    agreed = {v.subject: v for v in outcome.verdicts if v.check == "agrees" and v.status == "pass"}
    assert set(agreed) == set(RUNNING)
    lengths = [t.case.sizes["seq"] for t in outcome.manifest.trials if "seq" in t.case.sizes and not t.case.refused]
    if lengths:
        assert {1, 2, MAX_LEN} <= set(lengths)
        assert max(lengths) > 2 * outcome.manifest.trace["seq"]
    if form.method == "exact":
        for name in {"ort-cpu", "onnx-reference", "torchscript-cpu"} & set(agreed):
            eager = worst(agreed[name].trials, "eager")
            assert eager is not None
            assert eager.max_abs == 0, f"{name} does not give the eager bits"


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
    monkeypatch.setattr("posenc_export.formats.EXTERNAL_DATA_ABOVE", 1000)
    outcome = run("sinusoidal", Form(max_len=64), {"d_model": 16}, tmp_path, formats=("onnx",))
    assert not outcome.failed, outcome.verdicts
    assert [(a.format, a.file) for a in outcome.manifest.artifacts] == [
        ("onnx", "model.onnx"),
        ("onnx.data", "model.onnx.data"),
    ]
    assert (outcome.folder / "model.onnx").stat().st_size < 10_000
    moved = outcome.folder.rename(tmp_path / "a folder with spaces")
    from posenc_export.bundle import Bundle
    from posenc_export.validate import Options, validate

    assert all(v.status != "fail" for v in validate(Bundle.open(moved), Options()))


def test_two_formats_are_all_that_is_tested_here() -> None:
    assert list(FORMATS) == ["onnx", "torchscript"]
    assert {r.format for r in RUNTIMES.values()} == set(FORMATS)
