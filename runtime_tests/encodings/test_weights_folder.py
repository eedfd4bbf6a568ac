"""Weights of models' folders, in one file or several, and what is wrong with them."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from posenc.weight_files import names_in
from posenc.weights import load_tensor

AXES = ("rows", "columns")
TABLE = torch.arange(12.0).reshape(4, 3)


def test_a_folder_with_one_file(tmp_path: Path) -> None:
    save_file({"a.weight": TABLE, "b.bias": torch.ones(3)}, tmp_path / "model.safetensors")
    assert names_in(str(tmp_path)) == ("a.weight", "b.bias")
    assert torch.equal(load_tensor(str(tmp_path), None, AXES), TABLE)
    assert torch.equal(load_tensor(str(tmp_path), "b.bias", ("features",)), torch.ones(3))


def test_a_folder_with_several_files(tmp_path: Path) -> None:
    save_file({"a.weight": TABLE}, tmp_path / "model-1.safetensors")
    save_file({"b.weight": TABLE[None, None] + 1}, tmp_path / "model-2.safetensors")
    files = {"a.weight": "model-1.safetensors", "b.weight": "model-2.safetensors"}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": files}))
    assert names_in(str(tmp_path)) == ("a.weight", "b.weight")
    assert torch.equal(load_tensor(str(tmp_path), "b.weight", AXES), TABLE + 1)
    with pytest.raises(ValueError, match=r"holds 2 tensors and none of them is 'c': give the name of one as key"):
        load_tensor(str(tmp_path), "c", AXES)


@pytest.mark.parametrize("name", ["../model.safetensors", "/etc/passwd", "..", "a/b", ""])
def test_an_index_leads_out_of_no_folder(tmp_path: Path, name: str) -> None:
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"a": name}}))
    with pytest.raises(ValueError, match="must hold weight_map, an object of file names of its folder"):
        load_tensor(str(tmp_path), "a", AXES)


def test_what_is_wrong_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"has none of model\.safetensors"):
        load_tensor(str(tmp_path), None, AXES)
    save_file({"a": torch.ones(2, 3, 4)}, tmp_path / "model.safetensors")
    with pytest.raises(ValueError, match=r"weights must be floats of shape \(rows, columns\), got .*\(2, 3, 4\)"):
        load_tensor(str(tmp_path), "a", AXES)
    many = {f"layer.{i}.weight": torch.ones(2, 2) for i in range(99)}
    save_file(many, tmp_path / "model.safetensors")
    with pytest.raises(ValueError, match=r"it has no 'layer\.7\.weigth'; key is one of layer\.7\.weight") as error:
        load_tensor(str(tmp_path), "layer.7.weigth", AXES)
    assert str(error.value).count("layer.") < 30
