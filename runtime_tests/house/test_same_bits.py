"""What same_bits.py compares: each kind of difference is found and named, and moves of classes are none."""

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper

from helpers.bundles import edit, put, replace_array
from helpers.differences import NAMED, SAME_BYTES, Compared, alike, compare, of_arrays
from helpers.differences_of_calls import Difference
from posenc_export.write.formats import quiet
from scripts.same_bits import compare_all

FACTS: dict[str, Any] = {"refusals": {"seq7": "IndexError: out of range"}, "verdicts": {"onnx purity": {"note": ""}}}
HEADER = "#pragma once\nnamespace a {\nint rows = 3;\n}\n"


@pytest.fixture
def pair(small_bundle: Path, tmp_path: Path) -> tuple[Path, Path]:
    """Two folders that hold the same bundle, with a header, and its facts."""
    places = (tmp_path / "old" / "one", tmp_path / "new" / "one")
    for place in places:
        shutil.copytree(small_bundle, place / "bundle")
        (place / "bundle" / "model.hpp").write_text(HEADER)
        (place / "facts.json").write_text(json.dumps(FACTS))
        (place.parent / "said.json").write_text('{"posenc --help": "export\\nvalidate\\n"}')
    return places


def found(pair: tuple[Path, Path]) -> list[Difference]:
    return [*compare(*pair).differences]


def the_only(pair: tuple[Path, Path]) -> str:
    (difference,) = found(pair)
    return str(difference)


def initializer(path: Path, change: Callable[[Any], None]) -> None:
    """Change the largest table of a graph."""
    model = onnx.load(path)
    table = max(model.graph.initializer, key=lambda one: len(one.raw_data))
    array = numpy_helper.to_array(table).copy()
    change(array)
    table.CopyFrom(numpy_helper.from_array(array, table.name))
    onnx.save(model, path)


def rewrite(path: Path, change: Callable[[str], str]) -> None:
    """Change every name and every text in a TorchScript archive."""
    reader = torch._C.PyTorchFileReader(str(path))
    records = {name: reader.get_record(name) for name in reader.get_all_records()}
    writer = torch._C.PyTorchFileWriter(str(path))
    for name, record in records.items():
        if name not in ("version", "byteorder", ".data/serialization_id"):
            content = change(record.decode("latin-1")).encode("latin-1") if name.endswith((".py", ".pkl")) else record
            writer.write_record(change(name), content, len(content))
    writer.write_end_of_file()


def test_the_same_bundles_have_no_difference(pair: tuple[Path, Path]) -> None:
    compared = compare(*pair)
    assert compared == Compared("one", (), {"model.onnx": SAME_BYTES, "model.pt": SAME_BYTES})


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (put("learned", "scheme"), 'manifest.json scheme: "sinusoidal" -> "learned"'),
        (put(9, "params", "d_model"), "manifest.json params.d_model: 8 -> 9"),
        (put("float16", "inputs", 0, "dtype"), 'manifest.json inputs[x].dtype: "float32" -> "float16"'),
        (put(0.5, "cases", 0, "tolerance", "atol"), "].tolerance.atol: "),
        (put(["assumed"], "notes"), 'manifest.json notes[0]: nothing -> "assumed"'),
        (lambda manifest: manifest["cases"].pop(1), " -> nothing"),
        (lambda manifest: manifest["cases"].reverse(), "manifest.json cases, their order: "),
        (put({"torch": "3"}, "versions"), ""),
        (put("0" * 64, "artifacts", 0, "sha256"), ""),
    ],
)
def test_fields_of_a_manifest(pair: tuple[Path, Path], change: Any, words: str) -> None:
    edit(pair[1] / "bundle", change)
    assert [words in str(difference) for difference in found(pair)] == ([True] if words else [])


def test_a_bit_of_golden_data(pair: tuple[Path, Path]) -> None:
    def flip(array: Any) -> Any:
        array.reshape(-1).view(np.uint32)[5] ^= 1
        return array

    replace_array(pair[1] / "bundle", "seq2/y", flip)
    name = next(iter(key for key in np.load(pair[0] / "bundle" / "golden.npz") if key.endswith("seq2/y")))
    assert re.match(rf"golden.npz {name}, bits of 1 of \d+ elements, the first at \[0, 0, 5\]: ", the_only(pair))


def test_golden_arrays_by_name_dtype_shape_and_bits(tmp_path: Path) -> None:
    nan = np.array([np.nan, 1.0], np.float32)
    old: dict[str, Any] = {
        "same": nan,
        "lost": nan,
        "dtype": nan,
        "shape": nan,
        "zero": np.zeros(2),
        "nan": nan,
        "rows.rows": nan,
    }
    other_nan = (nan.view(np.uint32) ^ np.array([1, 0], np.uint32)).view(np.float32)
    new = {**old, "dtype": nan.astype(float), "shape": nan[None], "zero": -np.zeros(2), "nan": other_nan, "more": nan}
    np.savez(tmp_path / "old.npz", **old)
    np.savez(tmp_path / "new.npz", **{key: new[key] for key in new if key != "lost"})
    assert [str(difference) for difference in of_arrays(tmp_path / "old.npz", tmp_path / "new.npz")] == [
        "golden.npz lost: float32[2] -> nothing",
        "golden.npz dtype: float32[2] -> float64[2]",
        "golden.npz shape: float32[2] -> float32[1, 2]",
        "golden.npz zero, bits of 2 of 2 elements, the first at [0]: 0.0 -> -0.0",
        "golden.npz nan, bits of 1 of 2 elements, the first at [0]: nan -> nan",
        "golden.npz more: nothing -> float32[2]",
    ]


def test_a_bit_of_a_graph(pair: tuple[Path, Path]) -> None:
    def flip(array: Any) -> None:
        array.view(np.uint32)[1] ^= 1

    initializer(pair[1] / "bundle" / "model.onnx", flip)
    lines = [str(difference) for difference in found(pair)]
    assert lines
    assert all(re.match(r"model\.onnx in \S+: bits -> other bits of y$", line) for line in lines), lines


def test_a_graph_that_says_and_does_something_else(pair: tuple[Path, Path]) -> None:
    path = pair[1] / "bundle" / "model.onnx"
    model = onnx.load(path)
    x, start = model.graph.input
    node, output = helper.make_node("Identity", [x.name], ["y"]), model.graph.output
    start.name = "begin"
    start.type.tensor_type.elem_type = TensorProto.INT32
    output[0].type.tensor_type.shape.dim[1].dim_param = "length"
    graph = helper.make_graph([node], model.graph.name, [x, start], output)
    opset = helper.make_opsetid("", 20)
    onnx.save(helper.make_model(graph, opset_imports=[opset], ir_version=model.ir_version), path)
    lines = [str(difference) for difference in found(pair)]
    assert "model.onnx inputs[begin].name" not in lines
    for words in (
        "model.onnx inputs[start]: {",
        'model.onnx inputs[begin]: nothing -> {"name": "begin", "dtype": "INT32", "axes": [1]}',
        'model.onnx outputs[y].axes[1]: "seq" -> "length"',
        'model.onnx metadata.posenc.scheme: "sinusoidal" -> nothing',
        "model.onnx opsets.: 18 -> 20",
        "model.onnx operators.Identity: nothing -> 1",
    ):
        assert any(line.startswith(words) for line in lines), (words, lines)
    assert any(re.match(r"model.onnx in \S+: an answer -> refused", line) for line in lines)


def test_a_graph_that_no_longer_refuses(pair: tuple[Path, Path]) -> None:
    path = pair[1] / "bundle" / "model.pt"

    class Answers(torch.nn.Module):
        def forward(self, x: torch.Tensor, start: torch.Tensor) -> torch.Tensor:
            return x + 0 * start

    with quiet():
        torch.jit.save(torch.jit.script(Answers()), path)
    refused = [case["name"] for case in json.loads((pair[0] / "bundle" / "manifest.json").read_text())["cases"]
               if case["refused"]]  # fmt: skip
    lines = [str(difference) for difference in found(pair)]
    assert refused
    assert {f"model.pt in {name}: refused -> an answer" for name in refused} <= set(lines)


def test_names_of_arguments_and_modules_of_classes_in_a_script(pair: tuple[Path, Path]) -> None:
    path = pair[1] / "bundle" / "model.pt"
    rewrite(path, lambda text: re.sub(r"__torch__([./])posenc", r"__torch__\1other", text))
    assert alike(pair[0] / "bundle", pair[1] / "bundle", "model.pt") == NAMED
    assert found(pair) == []
    assert compare(*pair).calls > 10
    rewrite(path, lambda text: re.sub(r"\bstart\b", "begin", text))
    lines = [str(difference) for difference in found(pair)]
    assert 'model.pt inputs[start]: {"name": "start", "type": "Tensor"} -> nothing' in lines
    assert {line.split(":")[0] for line in lines} == {
        "model.pt inputs[start]",
        "model.pt inputs[begin]",
        "model.pt metadata.posenc.ends.start",
        "model.pt metadata.posenc.ends.begin",
    }


def test_texts_and_files(pair: tuple[Path, Path]) -> None:
    bundle = pair[1] / "bundle"
    (bundle / "model.hpp").write_text(HEADER.replace("3", "4"))
    (bundle / "required_operators.config").unlink()
    (bundle / "new.txt").touch()
    assert [str(difference) for difference in found(pair)] == [
        "model.hpp\n    @@ -2,3 +2,3 @@\n     namespace a {\n    -int rows = 3;\n    +int rows = 4;\n     }",
        "the file new.txt: nothing -> there",
        "the file required_operators.config: there -> nothing",
    ]


def test_messages_of_refusals_and_rows_of_reports(pair: tuple[Path, Path]) -> None:
    facts = {"refusals": {"seq7": "IndexError: too long"}, "verdicts": {"onnx purity": {"note": "two"}, "a": {}}}
    (pair[1] / "facts.json").write_text(json.dumps(facts))
    assert [str(difference) for difference in found(pair)] == [
        'facts.json refusals.seq7: "IndexError: out of range" -> "IndexError: too long"',
        'facts.json verdicts.onnx purity.note: "" -> "two"',
        "facts.json verdicts.a: nothing -> {}",
    ]


@pytest.fixture
def said(pair: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str]]:
    """Compare the folders of the pair as the script does: its status, and what it prints."""

    def run(*allowed: str) -> tuple[int, str]:
        return compare_all(pair[0].parent, pair[1].parent, allowed, 1), capsys.readouterr().out

    return run


def test_the_status_and_the_summary(pair: tuple[Path, Path], said: Callable[..., tuple[int, str]]) -> None:
    status, text = said()
    assert status == 0
    assert "model.onnx: 1 the same bytes\nmodel.pt: 1 the same bytes\n" in text
    assert text.endswith("1 bundles: 0 with differences, 0 in all; 0 were allowed; 0 new\n")
    edit(pair[1] / "bundle", put("rows", "family"))
    (pair[1].parent / "said.json").write_text('{"posenc --help": "export\\ncheck\\n"}')
    status, text = said()
    assert status == 1
    assert 'manifest.json family: "additive" -> "rows"\n  in one' in text
    assert "said.json posenc --help\n    @@ -1,2 +1,2 @@\n     export\n    -validate\n    +check\n  in what" in text
    status, text = said("manifest.json family", "said.json*")
    assert status == 0
    assert "0 in all; 2 were allowed" in text
    shutil.rmtree(pair[1])
    assert "the bundle: there -> nothing\n  in one" in said()[1]
