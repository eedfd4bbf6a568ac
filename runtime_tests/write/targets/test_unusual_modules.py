"""Modules of unusual sizes, dtypes and branches: what holds is exported, what does not is refused in a line."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from helpers.shared import Cli
from posenc_export.bundle.folder import Bundle
from posenc_export.bundle.manifest import Manifest

BOTH = ("a: float32[batch, n, 8]", "b: float32[batch, m, 8]")


def exported(cli: Cli, name: str, *inputs: str, max_len: int = 50) -> tuple[int, str]:
    flags = [part for port in inputs for part in ("-i", port)]
    options = ("--max-len", str(max_len), "-f", "onnx", "--runtime", "ort-cpu")
    result = cli("export", f"helpers.unusual:{name}", *flags, *options)
    assert "Traceback" not in result.output
    return result.exit_code, result.output


def good(cli: Cli, name: str, *inputs: str) -> Manifest:
    status, output = exported(cli, name, *inputs)
    assert status == 0, output
    return Bundle.open(Path(f"{name}-dynamic")).manifest


def test_a_branch_on_how_far_two_lengths_are_apart_is_refused(cli: Cli) -> None:
    status, output = exported(cli, "OneApart", *BOTH)
    assert status == 4, output
    assert "keeps the graph to calls where" in output
    assert not Path("OneApart-dynamic").exists()


def test_lengths_alike_that_a_module_refuses_are_no_meeting(cli: Cli) -> None:
    status, output = exported(cli, "SixteenRows", *BOTH)
    assert status == 2, output
    assert "the module itself fails" in output
    assert exported(cli, "SixteenRows", *BOTH, max_len=16)[0] in (0, 4), "16 are enough for what it has"


def test_grouped_heads_are_never_as_many_as_those_of_queries(cli: Cli) -> None:
    manifest = good(cli, "Grouped", "q: float32[batch, seq, hq:heads, 8]", "k: float32[batch, seq, hk:heads, 8]")
    assert [str(port) for port in manifest.outputs] == [
        "y0: float32[batch, seq, hq, 8]",
        "y1: float32[batch, seq, hk, 8]",
    ]
    heads = {(case.sizes["hq"], case.sizes["hk"]) for case in manifest.cases}
    assert len(heads) > 1
    assert all(queries > keys for queries, keys in heads)


def test_an_axis_of_multiples_is_tried_at_multiples_alone(cli: Cli) -> None:
    manifest = good(cli, "Patches", "image: float32[batch, 3, height % 14, width % 14]")
    sizes = [case.sizes for case in manifest.cases]
    assert all(s["height"] % 14 == 0 == s["width"] % 14 for s in sizes)
    assert {s["height"] > s["width"] for s in sizes} == {True, False}


def test_integers_are_compared_as_integers_and_an_input_may_be_called_y(cli: Cli) -> None:
    manifest = good(cli, "Counts", "y: int64[batch, seq] < 9")
    assert [str(port) for port in manifest.outputs] == ["y_out: int64[batch, seq]"]


def test_guards_of_more_than_sums_are_read(cli: Cli) -> None:
    status, output = exported(cli, "HalfAsLong", "x: float32[batch, seq, 8]")
    assert status in (0, 4), output
    assert (status == 0) == Path("HalfAsLong-dynamic").exists()


def test_how_a_slice_lies_in_memory_is_no_branch(cli: Cli) -> None:
    manifest = good(cli, "EvenPairs", "x: float32[batch, seq, 8]")
    assert {case.sizes["seq"] % 2 for case in manifest.cases} == {0, 1}


def test_a_length_of_one_size_only_is_refused(cli: Cli) -> None:
    status, output = exported(cli, "Patches", "image: float32[batch, 3, height % 14, width % 14]", max_len=20)
    assert status == 2, output
    assert "has no size but 14 up to 20" in output


def test_a_mask_offset_that_leaves_nothing_is_one_line(cli: Cli) -> None:
    options = ("--positions", "mask", "--position-offset", "9", "--max-len", "10")
    result = cli("export", "sinusoidal", "-p", "d_model=16", *options)
    assert result.exit_code == 2, result.output
    assert "max_len 10 leaves no length to vary behind position_offset 9" in result.output


def test_a_torch_that_keeps_guards_to_itself_is_refused_for_modules(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    real: Callable[..., torch.export.ExportedProgram] = torch.export.export

    def without_guards(*args: object, **kwargs: object) -> torch.export.ExportedProgram:
        program = real(*args, **kwargs)
        del program._guards_code
        return program

    monkeypatch.setattr(torch.export, "export", without_guards)
    status, output = exported(cli, "Counts", "y: int64[batch, seq] < 9")
    assert status == 4, output
    assert "does not say what torch.export assumed of sizes" in output
