"""TorchScript's successors: programs of torch.export, and AOTInductor packages, at lengths they were not traced at."""

import json
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from conftest import Cli, Running, need, one_of_each
from posenc.scheme import SCHEMES
from posenc.spec import Method, Mode, Spec
from posenc_export.bundle.folder import Bundle
from posenc_export.targets.scheme import scheme_target
from posenc_export.validation.run import validate_bundle
from posenc_export.validation.verdict import ValidateOptions, worst
from test_parity import MODES, family_of, run


def forms() -> Iterator[Any]:
    """Every scheme in every form that it has, the one of any length before others."""
    for scheme, form in product(SCHEMES, sorted(MODES, key=lambda form: form != ("dynamic", "exact"))):
        if family(scheme, form):
            yield pytest.param(scheme, form, id=f"{scheme}-{'-'.join(form)}")


def family(scheme: str, form: tuple[Mode, Method]) -> str:
    return family_of(scheme, Spec(*form), SCHEMES[scheme].samples[0])


@pytest.mark.parametrize(("scheme", "mode"), one_of_each(forms(), lambda one: family(*one.values)))
def test_a_program_of_torch_export_agrees(
    tmp_path: Path, scheme: str, mode: tuple[Mode, Method], running: Running
) -> None:
    result = run(scheme, Spec(*mode, None, 70), SCHEMES[scheme].samples[0], tmp_path, formats=("pt2",))
    assert [(v.subject, v.check, v.detail) for v in result.verdicts if v.status == "fail"] == []
    agreements = {v.subject: v for v in result.verdicts if v.check == "agrees" and v.status == "pass"}
    assert set(agreements) == running(("pt2",))
    eager = worst(agreements["pt2-cpu"].comparisons, "eager")
    assert eager is not None
    bits = all(case.eager_tolerance.bits for case in result.manifest.cases if not case.refused)
    assert mode[1] == "trig" or not bits or eager.max_abs == 0


@pytest.mark.parametrize("output", ["add", "rows"])
def test_no_length_is_refused_by_what_was_assumed_while_tracing(tmp_path: Path, output: str) -> None:
    spec = Spec("dynamic", "exact", "implicit", 70)
    result = run("sinusoidal", spec, {"d_model": 4, "output": output}, tmp_path, formats=("pt2",), validate=False)
    program = torch.export.load(result.folder / "model.pt2").module()
    module = scheme_target("sinusoidal", spec, {"d_model": 4, "output": output}, 0).encoding.module
    for length in [*range(1, 200), 2047, 2048, 2049]:
        x = torch.randn(2, length, 4)
        assert torch.equal(program(x), module(x)), length


def test_a_program_tells_nothing_of_the_machine_that_made_it(tmp_path: Path) -> None:
    result = run("sinusoidal", Spec(max_len=70), {"d_model": 4}, tmp_path, formats=("pt2",), validate=False)
    assert str(Path(__file__).parents[1]).encode() not in (result.folder / "model.pt2").read_bytes()


CASES = [
    ("sinusoidal", Spec("dynamic", "exact", "offset", 70), {"d_model": 16}, True),
    ("sinusoidal", Spec("baked", "exact", "implicit", 70, "fp16"), {"d_model": 16}, False),
    ("rope", Spec("dynamic", "exact", "explicit", 70), {"head_dim": 16}, False),
]


@pytest.mark.parametrize(("scheme", "spec", "params", "twice"), one_of_each(CASES, lambda _: ""))
def test_a_package_agrees_and_refuses(
    tmp_path: Path, scheme: str, spec: Spec, params: dict[str, Any], twice: bool
) -> None:
    need("aoti-cpp")
    result = run(scheme, spec, params, tmp_path, formats=("aoti",), validate=twice)
    verdicts = result.verdicts or validate_bundle(Bundle.open(result.folder, trusted=True), ValidateOptions())
    assert [(v.subject, v.check, v.detail) for v in verdicts if v.status == "fail"] == []
    rows = {(v.subject, v.check): v for v in verdicts}
    for name in ("aoti-cpu", "aoti-cpp"):
        eager = worst(rows[name, "agrees"].comparisons, "eager")
        assert eager is not None
        assert eager.max_abs == 0
        assert "out of range" in rows[name, "refusal"].detail
    if twice:
        assert rows["aoti", "determinism"].status == "pass"


@pytest.mark.exhaustive
def test_a_package_of_a_shift_agrees(tmp_path: Path) -> None:
    """AOTInductor compiles no slice of scores that a constant pads, and one of those that zeros are joined to."""
    need("aoti-cpp")
    result = run("conformer_relative", Spec("dynamic", max_len=70), {"output": "shift"}, tmp_path, formats=("aoti",))
    assert [(v.subject, v.check, v.detail) for v in result.verdicts if v.status == "fail"] == []


OWN = """
import torch

class Own(torch.nn.Module):
    # An embedding, and look-ups by brackets, index_select and gather, in tables of 20, 25, 30 and 35 rows.
    def __init__(self):
        super().__init__()
        self.rows = torch.nn.Embedding(20, 4)
        for rows in (25, 30, 35):
            self.register_buffer(f"t{rows}", torch.randn(rows, 4))

    def forward(self, ids, a, b, c):
        y = self.rows(ids) + self.rows.weight[: ids.shape[1]] + self.t25[a]
        return y + self.t30.index_select(0, b) + self.t35.gather(0, c[:, None].expand(-1, 4))
"""


@pytest.mark.exhaustive
def test_a_package_of_a_module_of_ones_own_refuses_by_itself(cli: Cli) -> None:
    Path("own.py").write_text(OWN)
    ports = ["ids: int64[batch, seq] < 20", "a: int64[seq] < 25", "b: int64[seq] < 30", "c: int64[seq] < 35"]
    words = [word for port in ports for word in ("-i", port)]
    result = cli("export", "own:Own", *words, "--max-len", "20", "-f", "aoti", "-o", "b")
    assert result.exit_code == 0, result.output
    package = torch._inductor.aoti_load_package("b/model_aoti.pt2")

    def call(*values: int, length: int = 20) -> torch.Tensor:
        result: torch.Tensor = package(*(torch.full((2, length)[i > 0 :], value) for i, value in enumerate(values)))
        return result

    assert call(19, 24, 29, 34).shape == (2, 20, 4)
    assert torch.equal(call(19, -1, 29, 34), call(19, 24, 29, 34)), "brackets count from the end"
    for bad in (
        (20, 0, 0, 0),
        (-1, 0, 0, 0),
        (0, 25, 0, 0),
        (0, -26, 0, 0),
        (0, 0, 30, 0),
        (0, 0, -1, 0),
        (0, 0, 0, 35),
    ):
        with pytest.raises(RuntimeError, match="out of range"):
            call(*bad)
    with pytest.raises(RuntimeError, match="out of range"):
        call(0, 0, 0, 0, length=21)


def test_a_compiler_that_fails_is_status_4(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise RuntimeError("no compiler\nand much more")

    monkeypatch.setattr("torch._inductor.aoti_compile_and_package", broken)
    result = cli("export", "-p", "d_model=4", "--max-len", "20", "-f", "aoti")
    assert result.exit_code == 4
    assert result.output == "Error: AOTInductor could not compile the module: no compiler\n"


def test_both_are_in_the_manifest(tmp_path: Path) -> None:
    result = run("sinusoidal", Spec(max_len=20), {"d_model": 4}, tmp_path, formats=("pt2", "onnx"))
    manifest = json.loads((result.folder / "manifest.json").read_text())
    assert [(a["format"], a["file"]) for a in manifest["artifacts"]] == [("pt2", "model.pt2"), ("onnx", "model.onnx")]
    assert np.load(result.folder / "golden.npz").files
