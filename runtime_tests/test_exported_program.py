"""TorchScript's successors: programs of torch.export, and AOTInductor packages, at lengths they were not traced at."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from conftest import Cli, need, running
from posenc.scheme import SCHEMES, Form
from posenc_export.exporting import Order, export
from posenc_export.subject import resolve
from posenc_export.validate import worst
from test_parity import MODES, SMALL, run


@pytest.mark.parametrize("mode", MODES, ids="-".join)
@pytest.mark.parametrize("scheme", SMALL)
def test_a_program_of_torch_export_agrees(tmp_path: Path, scheme: str, mode: Any) -> None:
    if mode[0] in SCHEMES[scheme].unsupported:
        pytest.skip(SCHEMES[scheme].unsupported[mode[0]])
    outcome = run(scheme, Form(*mode, None, 70), SMALL[scheme], tmp_path, formats=("pt2",))
    assert [(v.subject, v.check, v.detail) for v in outcome.verdicts if v.status == "fail"] == []
    agreed = {v.subject: v for v in outcome.verdicts if v.check == "agrees" and v.status == "pass"}
    assert set(agreed) == running(("pt2",))
    eager = worst(agreed["pt2-cpu"].trials, "eager")
    assert eager is not None
    assert mode[1] == "trig" or eager.max_abs == 0


@pytest.mark.parametrize("output", ["add", "rows"])
def test_no_length_is_refused_by_what_was_assumed_while_tracing(tmp_path: Path, output: str) -> None:
    form = Form("dynamic", "exact", "implicit", 70)
    outcome = run("sinusoidal", form, {"d_model": 4, "output": output}, tmp_path, formats=("pt2",), validate=False)
    program = torch.export.load(outcome.folder / "model.pt2").module()
    module = resolve("sinusoidal", form, ("d_model=4", f"output={output}"), (), 0).encoding.module
    for length in [*range(1, 200), 2047, 2048, 2049]:
        x = torch.randn(2, length, 4)
        assert torch.equal(program(x), module(x)), length


def test_a_program_tells_nothing_of_the_machine_that_made_it(tmp_path: Path) -> None:
    outcome = run("sinusoidal", Form(max_len=70), {"d_model": 4}, tmp_path, formats=("pt2",), validate=False)
    assert str(Path(__file__).parents[1]).encode() not in (outcome.folder / "model.pt2").read_bytes()


CASES = [
    ("sinusoidal", Form("dynamic", "exact", "offset", 70), {"d_model": 16}, True),
    ("sinusoidal", Form("baked", "exact", "implicit", 70, "fp16"), {"d_model": 16}, False),
    ("rope", Form("dynamic", "exact", "explicit", 70), {"head_dim": 16}, False),
]


@pytest.mark.parametrize(("scheme", "form", "params", "twice"), CASES)
def test_a_package_agrees_and_refuses(
    tmp_path: Path, scheme: str, form: Form, params: dict[str, Any], twice: bool
) -> None:
    need("aoti-cpp")
    outcome = run(scheme, form, params, tmp_path, formats=("aoti",), validate=twice)
    from posenc_export.bundle import Bundle
    from posenc_export.validate import Options, validate

    verdicts = outcome.verdicts or validate(Bundle.open(outcome.folder), Options())
    assert [(v.subject, v.check, v.detail) for v in verdicts if v.status == "fail"] == []
    rows = {(v.subject, v.check): v for v in verdicts}
    for name in ("aoti-cpu", "aoti-cpp"):
        eager = worst(rows[name, "agrees"].trials, "eager")
        assert eager is not None
        assert eager.max_abs == 0
        assert "out of range" in rows[name, "refusal"].detail
    if twice:
        assert rows["aoti", "determinism"].status == "pass"


def test_a_package_of_a_module_of_ones_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cli: Cli) -> None:
    # Everything that a package shall refuse is refused by the package itself, whoever loads it.
    Path("own.py").write_text(
        "import torch\n"
        "class Own(torch.nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.rows = torch.nn.Embedding(20, 4)\n"
        "    def forward(self, ids):\n"
        "        return self.rows(ids) + self.rows.weight[: ids.shape[1]]\n"
    )
    result = cli("export", "own:Own", "-i", "ids: int64[batch, seq] < 20", "--max-len", "20", "-f", "aoti", "-o", "b")
    assert result.exit_code == 0, result.output
    package = torch._inductor.aoti_load_package("b/model_aoti.pt2")
    assert package(torch.zeros(2, 20, dtype=torch.int64)).shape == (2, 20, 4)
    for bad in (torch.full((2, 5), 20), torch.full((2, 5), -1), torch.zeros(3000, 3000, dtype=torch.int64)):
        with pytest.raises(RuntimeError, match="out of range"):
            package(bad)


def test_a_compiler_that_fails_is_status_4(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise RuntimeError("no compiler\nand much more")

    monkeypatch.setattr("torch._inductor.aoti_compile_and_package", broken)
    result = cli("export", "-p", "d_model=4", "--max-len", "20", "-f", "aoti")
    assert result.exit_code == 4
    assert result.output == "Error: AOTInductor could not compile the module: no compiler\n"


def test_both_are_in_the_manifest(tmp_path: Path) -> None:
    make = lambda: resolve("sinusoidal", Form(max_len=20), ("d_model=4",), (), 0)  # noqa: E731
    outcome = export(make, Order(formats=("pt2", "onnx")), tmp_path / "b")
    manifest = json.loads((outcome.folder / "manifest.json").read_text())
    assert [(a["format"], a["file"]) for a in manifest["artifacts"]] == [("pt2", "model.pt2"), ("onnx", "model.onnx")]
    assert np.load(outcome.folder / "golden.npz").files
