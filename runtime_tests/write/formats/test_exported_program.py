"""TorchScript's successors: programs of torch.export, and AOTInductor packages, at lengths they were not traced at."""

import json
import math
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

import posenc
from helpers.combinations import MODES, family_of, run
from helpers.shared import Cli, Running, need, one_of_each
from posenc.ports import axes_of
from posenc.scheme import SCHEMES
from posenc.spec import Method, Mode, Spec
from posenc_export.bundle.folder import Bundle
from posenc_export.common.errors import ExportFailed
from posenc_export.proof.judging.verdict import ValidateOptions, worst
from posenc_export.proof.running.run import validate_bundle
from posenc_export.write.formats import WriteRequest
from posenc_export.write.formats.calls import ModuleCalls, calls_of
from posenc_export.write.formats.exported_program import capture_program
from posenc_export.write.formats.guards import too_narrow
from posenc_export.write.targets.scheme import scheme_target


def forms() -> Iterator[Any]:
    """Every scheme in every form that it has, the one of any length before others."""
    for scheme, form in product(SCHEMES, sorted(MODES, key=lambda form: form != ("dynamic", "exact"))):
        if family(scheme, form):
            yield pytest.param(scheme, form, id=f"{scheme}-{'-'.join(form)}")


def family(scheme: str, form: tuple[Mode, Method]) -> str:
    return family_of(scheme, Spec(*form), SCHEMES[scheme].samples[0])


@pytest.mark.parametrize(("scheme", "mode"), one_of_each(forms(), lambda one: one.values[1]))
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


def test_what_is_assumed_is_tried_at_calls_that_fit_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    rope = posenc.build("rope_2d", Spec("dynamic", "exact", "implicit", 70), head_dim=16)
    program: Any = SimpleNamespace(_guards_code=["L['q'].size()[2] != 127", "L['q'].size()[3] != 1000"])
    monkeypatch.setattr(ModuleCalls, "takes", lambda *_: True)
    broken = dict(too_narrow(program, rope.module, calls_of(rope), 70))
    assert broken.keys() == set(program._guards_code)
    shapes = [port.shape(sizes) for calls in broken.values() for sizes in calls for port in rope.inputs]
    assert max(map(math.prod, shapes)) <= 2**22


@pytest.mark.parametrize("output", ["add", "rows"])
def test_no_length_is_refused_by_what_was_assumed_while_tracing(tmp_path: Path, output: str) -> None:
    spec = Spec("dynamic", "exact", "implicit", 70)
    result = run("sinusoidal", spec, {"d_model": 4, "output": output}, tmp_path, formats=("pt2",), validate=False)
    program = torch.export.load(result.folder / "model.pt2").module()
    module = scheme_target("sinusoidal", spec, {"d_model": 4, "output": output}, 0).encoding.module
    for length in [*range(1, 200), 2047, 2048, 2049]:
        x = torch.randn(2, length, 4)
        assert torch.equal(program(x), module(x)), length


SHORT: list[tuple[str, dict[str, Any]]] = [
    ("transformer_xl", {"attention": "bi", "output": "shift"}),
    ("conformer_relative", {"output": "shift"}),
    ("conformer_relative", {"style": "chunk", "past": 2, "future": 1, "chunk": 3, "output": "shift"}),
    ("t5_bias", {"heads": 2, "num_buckets": 8, "max_distance": 20}),
    ("clipped_relative", {"head_dim": 6, "left": 0, "right": 0}),
]
"""What makes sizes of 1 of sizes of 1, and of larger ones."""


@pytest.mark.parametrize(("scheme", "params"), one_of_each(SHORT, lambda _: ""))
def test_a_program_holds_calls_of_one_key(tmp_path: Path, scheme: str, params: dict[str, Any]) -> None:
    target = scheme_target(scheme, Spec("dynamic", max_len=70), params, 0)
    made = run(scheme, Spec("dynamic", max_len=70), params, tmp_path, formats=("pt2",), validate=False)
    program = torch.export.load(made.folder / "model.pt2").module()
    axes = axes_of(target.encoding.inputs)
    for few, many in product((1, 2, 3, 65), repeat=2):
        of_lengths = {"seq": few, "seq_k": max(few, many), "chunks": many}
        sizes = {axis.name: of_lengths.get(axis.name, 1 + many % 2) for axis in axes}
        inputs = [torch.randn(port.shape(sizes)) for port in target.encoding.inputs]
        assert torch.equal(program(*inputs), target.encoding.module(*inputs)), sizes


class Branching(torch.nn.Module):
    """It gives something else of one pair of tokens, which no graph does that is traced with more."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + 1 if x.shape[1] // 2 == 1 else x + 2


def test_a_branch_of_a_scheme_is_no_guard_to_take_out() -> None:
    encoding = replace(posenc.build("sinusoidal", Spec("dynamic", max_len=70), d_model=4), module=Branching())
    request = WriteRequest(
        (torch.zeros(2, 5, 4),), 70, at=lambda sizes: (torch.zeros(sizes["batch"], sizes["seq"], 4),)
    )
    with pytest.raises(ExportFailed, match=r"seq // 2\) != 1, and .* is none: the module branches"):
        capture_program(encoding, request)


def test_a_program_tells_nothing_of_the_machine_that_made_it(tmp_path: Path) -> None:
    result = run("sinusoidal", Spec(max_len=70), {"d_model": 4}, tmp_path, formats=("pt2",), validate=False)
    assert str(Path(__file__).parents[3]).encode() not in (result.folder / "model.pt2").read_bytes()


CASES = [
    ("sinusoidal", Spec("dynamic", "exact", "offset", 70), {"d_model": 16}, True),
    ("sinusoidal", Spec("baked", "exact", "implicit", 70, "fp16"), {"d_model": 16}, False),
    ("rope", Spec("dynamic", "exact", "explicit", 70), {"head_dim": 16}, False),
]


@pytest.mark.exhaustive
@pytest.mark.parametrize(("scheme", "spec", "params", "twice"), CASES)
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
