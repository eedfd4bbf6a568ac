"""A user's own module: right ones agree, wrong ones are caught, each in one line and with the right status."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from helpers.own_encodings import described, recorded
from helpers.shared import Cli
from posenc.encoding import Tolerance
from posenc_export.bundle.folder import Bundle
from posenc_export.proof.judging.compare import judge, measure
from posenc_export.proof.recording.unread import unread

X = "x: float32[batch, seq, 8]"


def whole(factory: str) -> str:
    """The name of what makes a module: of `broken`, where nothing else is said."""
    return factory if ":" in factory else f"helpers.broken:{factory}"


def test_a_good_module_agrees_and_its_reference_is_named(cli: Cli) -> None:
    result = cli("export", "helpers.broken:Good", "-p", "scale=0.5", "-i", X, "--max-len", "50", "--json")
    assert result.exit_code == 0, result.output
    report = json.loads(result.output)
    assert report["passed"]
    assert report["reference"] == "the module run in float64"
    assert Path("Good-dynamic/model.onnx").is_file()
    manifest = Bundle.open(Path("Good-dynamic")).manifest
    assert [str(port) for port in manifest.outputs] == ["y: float32[batch, seq, 8]"]
    assert manifest.params == {"scale": 0.5}


def test_two_outputs_are_named_in_order(cli: Cli) -> None:
    result = cli("export", "helpers.broken:TwoOutputs", "-i", X, "--max-len", "50", "-q")
    assert result.exit_code == 0, result.output
    manifest = Bundle.open(Path("TwoOutputs-dynamic")).manifest
    assert [str(port) for port in manifest.outputs] == ["y0: float32[batch, seq, 8]", "y1: float32[batch, seq]"]


def test_a_module_may_say_its_inputs_and_outputs_itself(cli: Cli) -> None:
    result = cli("export", "helpers.broken:SaysItself", "--max-len", "50", "-q")
    assert result.exit_code == 0, result.output
    manifest = Bundle.open(Path("SaysItself-dynamic")).manifest
    assert [str(port) for port in (*manifest.inputs, *manifest.outputs)] == [X, "embedded: float32[batch, seq, 8]"]
    result = cli(
        "export", "helpers.broken:SaysItself", "-i", "x: float32[n, 4, 8]", "--max-len", "50", "-q", "-o", "typed"
    )
    assert result.exit_code == 0, result.output
    assert str(Bundle.open(Path("typed")).manifest.inputs[0]) == "x: float32[n, 4, 8]"
    words = ("--against", "helpers.broken:SaysItself", "--max-len", "50", "--runtime", "ort-cpu")
    assert cli("prove", "SaysItself-dynamic/model.onnx", *words).exit_code == 0


@pytest.mark.parametrize(
    ("factory", "inputs", "status", "text"),
    [
        ("SaysTooMany", [], 2, "posenc_outputs names 2 outputs, and the module gives 1"),
        ("SaysNothing", [], 2, "helpers.broken:SaysNothing: posenc_inputs: expected"),
        ("Specialises", [X], 4, "torch.export keeps the graph to seq <= 20, but it must hold up to 50"),
        (
            "PadsToEight",
            [X],
            4,
            "keeps the graph to calls where (seq % 8) != 0, and seq=8 is none: the module branches on it",
        ),
        ("Static", [X], 2, "the module itself fails on x"),
        ("helpers.unusual:FrozenLength", [X], 4, "its code makes a plain number of axis 'seq', 11 here"),
        ("GivesNan", [X], 2, "the module itself gives NaN in y"),
        ("raises", [X], 2, "helpers.broken:raises raised RuntimeError: no weights here"),
        ("ends", [X], 2, "helpers.broken:ends raised SystemExit: 0"),
        ("no_module", [X], 2, "helpers.broken:no_module returned an int: expected an nn.Module"),
        ("not_callable", [X], 2, "helpers.broken:not_callable is an int: expected an nn.Module"),
        ("nothing", [X], 2, "broken has no 'nothing'"),
        ("Needs", [X], 2, "helpers.broken:Needs needs width: give -p width=VALUE"),
        ("Good", [], 2, "say what goes in, as -i"),
        ("Good", [X, X], 2, "two inputs are named 'x'"),
        ("Good", ["x: float32[batch, seq, 9]"], 2, "the module itself fails on x"),
    ],
)
def test_what_is_wrong_is_one_line(cli: Cli, factory: str, inputs: list[str], status: int, text: str) -> None:
    flags = [part for port in inputs for part in ("-i", port)]
    result = cli("export", whole(factory), *flags, "--max-len", "50", "-f", "onnx")
    assert result.exit_code == status, result.output
    assert text in result.output
    assert "Traceback" not in result.output
    assert list(Path().iterdir()) == [], "nothing is left behind"


@pytest.mark.parametrize(
    ("factory", "status", "text"),
    [
        ("CountsCalls", 1, "purity: what this module gives depends on earlier calls: "),
        ("Random", 1, "determinism: two copies of the module give other outputs of the same inputs: "),
        *(
            pytest.param(*row, marks=pytest.mark.exhaustive)
            for row in (
                ("LongestSoFar", 1, "purity: what this module gives depends on earlier calls: "),
                ("LittleRandom", 1, "determinism: two copies of the module give other outputs of the same inputs: "),
            )
        ),
        ("NoiseAlone", 1, "rounding: what this module gives is noise: "),
        ("WrongBesideMasks", 1, "ort-cpu agrees: y against eager"),
        ("uncopyable", 2, "the module cannot be copied (TypeError: cannot pickle 'staticmethod' object): give a class"),
    ],
)
def test_what_no_file_can_hold_is_refused(cli: Cli, factory: str, status: int, text: str) -> None:
    flags = ("-i", X, "--max-len", "50", "-f", "onnx", "--runtime", "ort-cpu")
    result = cli("export", f"helpers.broken:{factory}", *flags)
    assert result.exit_code == status, result.output
    assert text in result.output
    assert not Path(f"{factory}-dynamic").exists()


@pytest.mark.parametrize(
    ("factory", "kept"),
    [
        ("FrozenCache", "cached"),
        *(
            pytest.param(*row, marks=pytest.mark.exhaustive)
            for row in (
                ("InfiniteScores", ""),
                ("GrowingTable", "table"),
                ("StoresItsAttention", "last"),
                ("Uncopyable", "table"),
                ("CausalScores", ""),
            )
        ),
        ("PlainSines", ""),
    ],
)
def test_what_is_right_passes_and_what_it_keeps_is_a_note(cli: Cli, factory: str, kept: str) -> None:
    flags = ("-i", X, "--max-len", "50", "-f", "onnx", "--runtime", "ort-cpu", "--json")
    result = cli("export", f"helpers.broken:{factory}", *flags)
    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout)
    note = f"a call changes {kept} of the module: export it before it is called, as was done here"
    assert report["notes"] == ([note] if kept else [])
    # in a call with hard rows numbers are as large as a dtype has them, and so are the steps between them
    compared = [c for v in report["verdicts"] for c in v["comparisons"] if "hard-rows" not in c["case"]]
    worst = [c["max_abs"] for c in compared]
    assert max(worst, default=0.0) < 1e-4, "masks are no scale"


@pytest.mark.parametrize(
    ("factory", "note"),
    [
        ("BakedLength", "captured by torch.export(strict=True); in the usual way, torch.export"),
        ("warm_cache", "captured by torch.export(strict=False) of long inputs; in the usual way, torch.export keeps"),
        ("helpers.unusual:PadsInVain", "torch.export assumed (((-1)*seq) % 8) != 0; at "),
        ("Ids", "x is read for its shape, dtype or device alone: no output depends on its values"),
    ],
)
def test_what_saves_a_module_is_a_note(cli: Cli, factory: str, note: str) -> None:
    flags = ("-i", X, "--max-len", "50", "-f", "onnx", "--runtime", "ort-cpu", "--json")
    result = cli("export", whole(factory), *flags)
    assert result.exit_code == 0, result.output
    assert any(line.startswith(note) for line in json.loads(result.stdout)["notes"])


def test_an_infinity_must_be_the_same_one() -> None:
    eager = np.array([1.0, -np.inf], np.float32)
    loose = Tolerance(atol=1e9, rtol=1.0)
    assert judge(measure(eager, eager), loose).passed
    assert not judge(measure(np.array([1.0, 3.0], np.float32), eager), loose).passed
    assert not judge(measure(np.array([1.0, np.inf], np.float32), eager), loose).passed
    least = np.array([1.0, np.finfo(np.float32).min], np.float32)
    assert judge(measure(least, np.array([1.0, np.finfo(np.float64).min])), Tolerance()).passed
    assert measure(least, least).peak == 1.0


def test_a_lost_input_is_caught(cli: Cli) -> None:
    result = cli(
        "export", "helpers.broken:LostInput", "-i", X, "-i", "start: int64[1]", "--max-len", "50", "-f", "onnx"
    )
    assert result.exit_code == 1, result.output
    assert "input 'start' is not used" in result.output
    assert Path("LostInput-dynamic-failed/report.json").is_file()
    assert not Path("LostInput-dynamic").exists()


def test_an_input_that_nobody_reads_is_a_note(cli: Cli) -> None:
    flags = ("-i", X, "-i", "start: int64[1]", "--max-len", "20", "-f", "onnx", "--runtime", "ort-cpu")
    result = cli("export", "helpers.unusual:UnreadInput", *flags)
    assert result.exit_code == 0, result.output
    assert "start is read for its shape, dtype or device alone" in result.output
    assert Bundle.open(Path("UnreadInput-dynamic")).manifest.unread == ("start",)
    assert cli("validate", "UnreadInput-dynamic").exit_code == 0


def test_an_unknown_module_is_one_line(cli: Cli) -> None:
    result = cli("export", "no_such_package:thing", "-i", X)
    assert result.exit_code == 2
    assert "no module 'no_such_package' in the current folder or installed" in result.output


@pytest.mark.parametrize("option", [["--baked"], ["--method", "trig"], ["--positions", "offset"], ["--dtype", "fp16"]])
def test_options_of_schemes_are_refused_for_modules(cli: Cli, option: list[str]) -> None:
    result = cli("export", "helpers.broken:Good", "-i", X, *option)
    assert result.exit_code == 2
    assert f"{option[0]} is for schemes" in result.output


CACHE = ("q: float32[batch, seq, 8]", "past: float32[batch, past, 8]", "mask: int64[batch, past+seq] mask")


def test_what_a_kv_cache_implies_is_not_refused(cli: Cli) -> None:
    flags = [part for port in CACHE for part in ("-i", port)]
    result = cli(
        "export", "helpers.broken:Cache", *flags, "--max-len", "50", "-f", "onnx", "--runtime", "ort-cpu", "--json"
    )
    assert result.exit_code == 0, result.output
    sizes = [case.sizes for case in Bundle.open(Path("Cache-dynamic")).manifest.cases]
    assert {"batch": 1, "seq": 1, "past": 11} in sizes or {"batch": 3, "seq": 1, "past": 11} in sizes
    assert any(s["seq"] > s["past"] for s in sizes)


def test_axes_that_are_one_without_saying_so_are_refused(cli: Cli) -> None:
    ports = ("a: float32[batch, n, 8]", "b: float32[batch, m, 8]")
    result = cli(
        "export", "helpers.broken:MaybeEqual", *(part for port in ports for part in ("-i", port)), "-f", "onnx"
    )
    assert result.exit_code == 4, result.output
    assert "keeps the graph to calls where" in result.output
    assert "n" in result.output.split("where")[1]


def test_what_is_assumed_of_inputs_is_said(cli: Cli) -> None:
    result = cli(
        "export", "helpers.broken:LostInput", "-i", X, "-i", "start: int64[1]", "--max-len", "50", "-f", "onnx"
    )
    assert "start: carries the first position, by its name" in result.output


def test_a_meeting_that_a_module_refuses_is_dropped_and_named(cli: Cli) -> None:
    ports = ("a: float32[batch, n, 8]", "b: float32[batch, m, 8]")
    flags = [part for port in ports for part in ("-i", port)]
    result = cli("export", "helpers.broken:NoLonger", *flags, "--max-len", "50", "-f", "onnx", "--runtime", "ort-cpu")
    assert result.exit_code == 0, result.output
    assert "not tried: batch" in result.output
    assert "a is longer than b" in result.output


class Sources(nn.Module):
    """Takes ids and many floats: some by their shape alone, some behind a step, some whose gradient is cut."""

    def forward(self, x: Tensor, ids: Tensor, *floats: Tensor) -> Tensor:
        shape, step, cut, *shares = floats
        parts = (torch.zeros_like(shape), step.floor(), cut.detach(), *(share.softmax(-1) for share in shares))
        return x * ids[..., None] + torch.stack(parts).sum(0)


def test_inputs_of_floats_are_asked_for_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    shares = [f"share{number}" for number in range(30)]
    floats = [f"{name}: float32[batch, seq, 8]" for name in ("shape", "step", "cut", *shares)]
    encoding = described(Sources(), (X, "ids: int64[batch, seq] < 9", *floats))
    cases = recorded(encoding, 2, 3)
    called: list[int] = []
    real = Sources.forward

    def counted(self: Sources, *inputs: Tensor) -> Tensor:
        called.append(len(inputs))
        return real(self, *inputs)

    monkeypatch.setattr(Sources, "forward", counted)
    assert unread(encoding, cases, 0) == ("shape",)
    assert len(called) < len(shares), "a call for each input would be more"
