"""Words that options take: several with commas between, --mode beside its short forms, what is near a wrong one."""

from pathlib import Path

import pytest

from helpers.shared import Cli
from posenc.encoding import Encoding
from posenc.spec import Spec
from posenc_export.bundle.case import Case
from posenc_export.cli import main
from posenc_export.cli.text.sources import read_source
from posenc_export.common.errors import BadInput, ToolFailed
from posenc_export.proof.recording import record
from posenc_export.write.targets.module import module_target
from posenc_export.write.targets.scheme import scheme_target


def values(*words: str) -> dict[str, object]:
    """Return what the export command reads from its words."""
    return main.commands["export"].make_context("export", list(words)).params


def test_several_words_stand_in_one_option() -> None:
    read = values("-f", "onnx, pt2", "-f", "header", "--runtime", "ort-cpu,pt2-cpu", "--require", "ort-cpu,model")
    assert read["formats"] == ("onnx", "pt2", "header")
    assert (read["runtimes"], read["require"]) == (("ort-cpu", "pt2-cpu"), ("ort-cpu", "model"))
    assert values()["formats"] == ("onnx", "torchscript")
    assert values()["runtimes"] == ()
    bench = main.commands["bench"].make_context("bench", ["--runtime", "ort-cpu,pt2-cpu", "--length", "8"])
    assert bench.params["runtimes"] == ("ort-cpu", "pt2-cpu")


@pytest.mark.parametrize("words", [["--mode", "dynamic"], ["--dynamic"], ["--mode", "dynamic", "--dynamic"]])
def test_the_mode_has_a_long_and_a_short_form(words: list[str]) -> None:
    assert read_source(values(*words)).settings["mode"] == "dynamic"


def test_baked_has_a_long_form_too_and_no_word_is_no_mode() -> None:
    assert read_source(values("--mode", "baked")).settings["mode"] == "baked"
    assert "mode" not in read_source(values()).settings


def test_a_command_that_is_misspelt_names_the_nearest(cli: Cli) -> None:
    result = cli("exprot")
    assert (result.exit_code, "No such command 'exprot': did you mean 'export'?" in result.output) == (2, True)
    assert "known: export, validate," in result.output
    assert "did you mean" not in cli("zzz").output


def test_an_error_inside_a_scheme_is_ours_and_gives_no_advice_on_inputs(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*_: object) -> None:
        raise IndexError("positions must be in 0..39 (index out of range in self)")

    encoding = scheme_target("sinusoidal", Spec(max_len=40), {"d_model": 8}, 0).encoding
    monkeypatch.setattr(record, "call_on_arrays", failing)
    with pytest.raises(ToolFailed) as error:
        record.record(encoding, [Case("batch1-seq5", {"batch": 1, "seq": 5})], 0)
    assert error.value.message == (
        "the encoding fails at batch1-seq5: IndexError: positions must be in 0..39 (index out of range in self)"
    )


def test_an_error_inside_a_module_of_ones_own_is_the_user_s(monkeypatch: pytest.MonkeyPatch) -> None:
    from posenc_export.write.inputs.ports import parse_ports

    ports = parse_ports(("x: float32[batch, seq, 8]",))
    encoding: Encoding = module_target("helpers.broken:Good", ports, Spec(max_len=40), {}, 0).encoding

    def failing(*_: object) -> None:
        raise IndexError("index out of range in self")

    monkeypatch.setattr(record, "call_on_copies", failing)
    with pytest.raises(BadInput, match=r"the module itself fails at batch1-seq5: .* say which in -i"):
        record.record(encoding, [Case("batch1-seq5", {"batch": 1, "seq": 5})], 0)


def test_nothing_is_written_where_a_word_is_wrong(cli: Cli) -> None:
    assert cli("export", "-f", "onnx,onyx").exit_code == 2
    assert list(Path().iterdir()) == []


MODULES = "def make():\n    from torch import nn\n    return nn.Identity()\n"


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["export", "-p", "d_model", "64"], "-p d_model: expected KEY=VALUE, as in -p d_model=512"),
        (["export", "rope", "head_dim=64"], "Got unexpected extra argument (head_dim=64): give it as -p head_dim=64"),
        (["bench", "rope", "head_dim=64"], "Got unexpected extra argument (head_dim=64): give it as -p head_dim=64"),
        (["export", "rope", "alibi"], "Got unexpected extra argument (alibi)\n"),
        (["export", "rope", "--baked", "--dynamic"], "--dynamic and --baked exclude each other: give one of them"),
        (["cuda", "--cpp", "--no-cpp"], "--cpp and --no-cpp exclude each other: give one of them"),
        (["export", "mine"], "mine is no scheme: give a module of your own as mine:NAME, NAME being what makes it"),
        (
            ["export", "mine.py"],
            "mine.py is no scheme: give a module of your own as mine:NAME, NAME being what makes it",
        ),
        (["export", "mine.py:make"], "mine.py:make: give it by the module's name, as mine:make"),
        (["export", "sub/mine.py:make"], "sub/mine.py:make: give it by the module's name, as sub.mine:make"),
        (["export", "mine:mak", "-i", "x: float32[n]"], "mine:mak: mine has no 'mak': did you mean 'make'?"),
        (["bench", "b/model.onnx"], "b/model.onnx is no bundle: give its folder, b"),
        (["bench", "b/model.onyx"], "b/model.onyx is no bundle: there is no such folder"),
        (["bench", "--save", "no/such.md"], "cannot write no/such.md: there is no folder no"),
        (["cuda", "--save", "no/such.md"], "cannot write no/such.md: there is no folder no"),
        (["cuda", "--scheme", "rope,rop"], "unknown scheme 'rop': did you mean 'rope'?"),
    ],
)
def test_a_newcomer_s_mistake_is_one_line_that_says_what_to_type(cli: Cli, words: list[str], line: str) -> None:
    Path("mine.py").write_text(MODULES, encoding="utf-8")
    Path("b").mkdir()
    Path("b/model.onnx").touch()
    result = cli(*words)
    assert result.exit_code == 2, result.output
    assert line in result.output
