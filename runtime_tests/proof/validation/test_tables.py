"""Every row of a file is held: one that is made zero is refused by its number, and a file as it was written is not."""

import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from onnx import numpy_helper
from torch import Tensor

import posenc_export
from helpers.bundles import edit, put
from helpers.found_tables import finding
from helpers.shared import Cli, Once, one_of_each
from helpers.stored import change_graph, change_table, largest_table, put_right, zero
from posenc.parameters import Value
from posenc.scheme import build
from posenc.sincos.rows import waves
from posenc.spec import Mode, Positions, Spec
from posenc_export.proof.checks import CheckResult
from posenc_export.proof.exporter import ExportOptions
from posenc_export.write.formats.torchscript import save_script

Combination = tuple[str, Mode, Positions, Mapping[str, Value]]
COMBINATIONS: list[Combination] = [
    ("sinusoidal", "dynamic", "implicit", {"d_model": 8}),
    ("transformer_xl", "dynamic", "implicit", {"d_model": 16}),
    ("timestep", "baked", "explicit", {"dim": 8}),
    ("sinusoidal", "dynamic", "offset", {"d_model": 8}),
    ("sinusoidal", "dynamic", "mask", {"d_model": 8}),
    ("sinusoidal", "baked", "implicit", {"d_model": 8}),
    ("rope", "dynamic", "implicit", {"head_dim": 16}),
    ("learned", "baked", "implicit", {"d_model": 8}),
    ("sine_2d", "baked", "mask", {"dim": 8}),
    ("deberta_buckets", "dynamic", "implicit", {"num_buckets": 16, "max_distance": 40}),
    ("sincos_2d", "dynamic", "implicit", {"dim": 8}),
    ("conformer_relative", "dynamic", "implicit", {"d_model": 16}),
    ("t5_bias", "dynamic", "implicit", {"heads": 2}),
    ("xpos", "dynamic", "implicit", {"head_dim": 16}),
]
QUICK = 3
DIGITS = COMBINATIONS[0]


def written(once: Once, combination: Combination, format_: str = "onnx") -> Path:
    """Return a bundle, written once and not validated."""
    scheme, mode, positions, params = combination

    def make(folder: Path) -> None:
        spec, options = Spec(mode, positions=positions, max_len=70), ExportOptions(formats=(format_,), validate=False)
        posenc_export.export(scheme, to=folder / "b", spec=spec, options=options, parameters=dict(params))

    return once(f"tables-{scheme}-{mode}-{positions}-{format_}", make) / "b"


@pytest.fixture
def digits(once: Once, tmp_path: Path) -> Path:
    """A copy of the main job's bundle: a dynamic file with implicit positions."""
    return Path(shutil.copytree(written(once, DIGITS), tmp_path / "digits"))


@pytest.mark.parametrize(
    "index",
    one_of_each(range(len(COMBINATIONS)), lambda index: min(index, QUICK)),
)
def test_a_row_that_is_made_zero_is_named(once: Once, tmp_path: Path, index: int) -> None:
    bundle = Path(shutil.copytree(written(once, COMBINATIONS[index]), tmp_path / "b"))
    found = finding(bundle)
    rows, of, all_rows, *_ = found.measured.split()
    assert (found.problems, rows, of) == ([], all_rows, "of")
    assert found.note == ""
    name, table = largest_table(bundle)
    row = int(np.flatnonzero(table.reshape(len(table), -1).any(1))[-1])
    change_table(bundle, name, zero(row))
    assert f"row {row} of {name} is not the encoding's" in finding(bundle).problems


def test_the_main_job_says_how_many_rows_are_held_and_how_far_it_was_tried(digits: Path) -> None:
    assert (
        finding(digits).measured
        == "4,224 of 4,224 stored rows; positions up to 16,777,215 in 8 short calls, position 16,777,216 refused"
    )


@pytest.mark.parametrize("row", [0, 7, 300, 511])
def test_one_element_that_is_a_hundredth_off_is_refused(digits: Path, row: int) -> None:
    def change(array: np.ndarray) -> None:
        array[row, 3] *= np.float32(1.01)

    change_table(digits, "source.mid_row_cos", change)
    assert finding(digits).problems[0] == f"row {row} of source.mid_row_cos is not the encoding's"


def divide_by_more(model: onnx.ModelProto) -> None:
    """Take the highest digit by another divisor, which no position of a short call shows."""
    node = next(node for node in model.graph.node if node.op_type == "Div" and "unsqueeze" in node.input[0])
    model.graph.initializer.append(numpy_helper.from_array(np.array(513), "more"))
    node.input[1] = "more"


def look_up_another(model: onnx.ModelProto) -> None:
    """Read the cosines of the highest digit where its sines belong: at its first row one is 0, the other 1."""
    node = next(node for node in model.graph.node if node.op_type == "Gather" and "high_row" in node.input[0])
    other = next(node for node in model.graph.node if node.op_type == "Gather" and "high_ahead" in node.input[0])
    node.input[0] = other.input[0]


@pytest.mark.parametrize("change", [divide_by_more, look_up_another])
def test_what_differs_far_out_alone_is_refused(
    digits: Path, change: Callable[[onnx.ModelProto], object], cli: Cli
) -> None:
    change_graph(digits, change)
    assert [line for line in finding(digits).problems if "where its positions begin at" in line]
    result = cli("validate", str(digits), "--runtime", "ort-cpu")
    assert (result.exit_code, "PE113 onnx tables: where its positions begin at" in result.output) == (1, True)


def test_a_last_digit_passes_where_another_version_made_the_tables(digits: Path) -> None:
    def change(array: np.ndarray) -> None:
        array[300, 0] = np.nextafter(array[300, 0], np.float32(2))

    change_table(digits, "source.high_row", change)
    assert finding(digits).problems == ["row 300 of source.high_row is not the encoding's"]
    edit(digits, put("2.0.0", "versions", "numpy"))
    assert finding(digits).problems == []
    change_table(digits, "source.high_row", change)
    assert finding(digits).problems == ["row 300 of source.high_row is not the encoding's"]


def test_wrong_rows_of_this_version_are_found(digits: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A module that makes wrong rows, as files that it writes have them, is held against float64."""

    def wrong(positions: np.ndarray, *how: object) -> tuple[Tensor, Tensor]:
        sin, cos = waves(positions, *how)  # type: ignore[arg-type]
        sin[300:] *= 1.001
        return sin, cos

    monkeypatch.setattr("posenc.sincos.angle_addition.waves", wrong)
    problems = "; ".join(finding(digits).problems)
    assert "this version's source.mid_sin is not what float64 says" in problems


@pytest.mark.parametrize(
    ("changes", "note"),
    [
        ([put("cube", "scheme")], "not held: this version does not know the scheme cube; rows held at export: 4,224"),
        ([put(2**40, "params", "d_model")], "not held: d_model is 1099511627776, beyond what files of"),
        ([put(2**23, "params", "d_model")], "GiB; 0.0625 GiB are allowed"),
        ([put("x", "params", "d_model")], "not held: this version cannot make it: d_model must be"),
        ([put("/etc/passwd", "params", "weights")], "not held: weights are a file of whoever made the bundle"),
        ([put(9, "params", "d_model")], "not held: this version makes sinusoidal with other inputs or outputs"),
    ],
)
def test_what_cannot_be_made_again_is_a_note(digits: Path, changes: list[Callable[..., object]], note: str) -> None:
    for change in changes:
        edit(digits, change)
    found = finding(digits)
    assert (found.problems, note in found.note) == ((), True), found


def test_of_a_file_without_tables_no_rows_are_counted(cli: Cli, tmp_path: Path) -> None:
    result = cli("export", "alibi", "--dynamic", "-p", "heads=2", "-f", "onnx", "--no-validate", "-o", "b")
    assert result.exit_code == 0, result.output
    found = finding(tmp_path / "b")
    assert (list(found.problems), found.measured, found.note) == ([], "", "")


def test_the_rows_of_weights_are_held_at_the_export(cli: Cli, tmp_path: Path) -> None:
    np.save(tmp_path / "w.npy", np.arange(1, 321, dtype=np.float32).reshape(40, 8))
    result = cli("export", "learned", "-p", "weights=w.npy", "-f", "onnx", "--runtime", "ort-cpu", "-o", "b")
    assert result.exit_code == 0, result.output
    of_export = rows_of(tmp_path / "b")
    assert (of_export["detail"], of_export["note"]) == ("40 of 40 stored rows", "")
    assert finding(tmp_path / "b").note.endswith("rows held at export: 40, here: 40")


def rows_of(bundle: Path) -> dict[str, str]:
    verdicts = json.loads((bundle / "report.json").read_text())["verdicts"]
    return next(verdict for verdict in verdicts if verdict["check"] == "tables")


@pytest.mark.parametrize(
    ("change", "note"),
    [
        (put(None, "seed"), "not held: the bundle does not say the seed of its numbers at random"),
        (put("2.0.0", "versions", "torch"), "not held: numbers at random are those of torch 2.0.0"),
    ],
)
def test_numbers_at_random_that_cannot_be_drawn_again_are_a_note(
    once: Once, tmp_path: Path, change: Callable[..., object], note: str
) -> None:
    def make(folder: Path) -> None:
        options = ExportOptions(formats=("onnx",), validate=False, seed=5)
        posenc_export.export("learned", to=folder / "b", spec=Spec(max_len=400), options=options)

    bundle = Path(shutil.copytree(once("tables-drawn", make) / "b", tmp_path / "b"))
    assert finding(bundle) == CheckResult([], "400 of 400 stored rows")
    edit(bundle, put(6, "seed"))
    assert [line for line in finding(bundle).problems if "nothing held them" in line]
    edit(bundle, change)
    found = finding(bundle)
    assert (found.problems, found.note.partition(";")[0]) == ([], note)


def test_a_script_with_a_changed_constant_is_refused(once: Once, tmp_path: Path) -> None:
    bundle = Path(shutil.copytree(written(once, DIGITS, "torchscript"), tmp_path / "b"))
    assert finding(bundle, trusted=True).problems == []
    module = build("sinusoidal", Spec("dynamic", positions="implicit", max_len=70), d_model=8).module.eval()
    module.get_buffer("source.high_row")[300] = 0
    with (bundle / "model.pt").open("wb") as file:
        save_script(torch.jit.script(module), (torch.zeros(2, 9, 8),), file)
    put_right(bundle, "model.pt")
    (problem,) = finding(bundle, trusted=True).problems
    assert problem.endswith("is not that of a script of the encoding")
    edit(bundle, put("2.0.0", "versions", "torch"))
    assert finding(bundle, trusted=True) == replace(CheckResult(), note=finding(bundle, trusted=True).note)
    assert finding(bundle, trusted=True).note.startswith("not held: written by torch 2.0.0")
