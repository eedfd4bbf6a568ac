"""What decomposed relative positions refuse: one clear line each, and graphs that take no other queries."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch
from torch import Tensor

import posenc
from helpers.shared import Cli
from posenc.spec import Spec, UnsupportedSpec
from posenc_export import export


def test_a_graph_of_other_queries_is_refused(tmp_path: Path) -> None:
    parameters: dict[str, Any] = {"window": (2, 3), "head_dim": 8}
    made = export("decomposed_relative", parameters=parameters, to=tmp_path / "out", formats=("onnx",), validate=False)
    session = onnxruntime.InferenceSession(made.folder / "model.onnx")
    module = posenc.build("decomposed_relative", **parameters).module
    for tokens in (1, 5, 12):
        q = torch.zeros(1, 3, tokens, 8)
        with pytest.raises(Exception, match="index: 2 Got"):
            session.run(None, {"q": q.numpy()})
        with pytest.raises(ValueError, match=f"q has {tokens} tokens, this window 2 x 3"):
            module(q)
    with pytest.raises(ValueError, match="x has 5 features, this encoding has 8"):
        module(torch.zeros(1, 3, 6, 5))


def bad(folder: Path) -> dict[str, tuple[dict[str, Any], str]]:
    def saved(name: str, **tensors: Tensor) -> str:
        torch.save({key.replace("__", "."): tensor for key, tensor in tensors.items()}, folder / name)
        return str(folder / name)

    square, flat = torch.ones(7, 4), torch.ones(5, 4)
    one = saved("one.pt", rel_pos_h=square, rel_pos_w=flat)
    two = saved("two.pt", **{f"layers__{i}__attn__rel_pos_{n}": square for i in (0, 1) for n in "hw"})
    half, none = saved("half.pt", rel_pos_h=square), saved("none.pt", other=square)
    even = saved("even.pt", rel_pos_h=torch.ones(6, 4), rel_pos_w=flat)
    unlike = saved("unlike.pt", rel_pos_h=square, rel_pos_w=torch.ones(5, 3))
    empty = saved("empty.pt", rel_pos_h=torch.ones(0, 4), rel_pos_w=flat)
    nan = saved("nan.pt", rel_pos_h=square * torch.nan, rel_pos_w=flat)
    np.save(folder / "array.npy", np.ones((7, 4), np.float32))
    return {
        "no features": ({"head_dim": 0}, "head_dim must be at least 1, got 0"),
        "no window": ({"window": (7, 0)}, "window must be rows and columns of at least 1, or one number for both, got"),
        "three sides": ({"window": (1, 2, 3)}, "window must be rows and columns of at least 1"),
        "no size": ({"size": -1}, "size must be rows and columns of at least 1, or one number for both, got -1"),
        "too large": ({"size": 4000}, "GiB are free"),
        "huge tables": ({"window": 10**12}, "GiB are free"),
        "std": ({"std": 0.0}, "std must be a finite number above 0, got 0.0"),
        "key alone": ({"key": "attn"}, "give weights=FILE beside key=attn"),
        "other window": ({"weights": one, "window": 5}, "rel_pos_h must be (2 * height - 1, head_dim) = (9, 4), got"),
        "other side": ({"weights": one, "window": 4}, "rel_pos_w must be (2 * width - 1, head_dim) = (7, 4), got"),
        "other features": ({"weights": one, "head_dim": 8}, "(2 * height - 1, head_dim) = (7, 8), got (7, 4)"),
        "unlike features": ({"weights": unlike}, "rel_pos_w must be (2 * width - 1, head_dim) = (5, 4), got (5, 3)"),
        "even": ({"weights": even}, "rel_pos_h must have 2 * height - 1 rows, an odd number, got 6"),
        "empty": ({"weights": empty}, "floats of shape (2 * height - 1, head_dim), got an empty torch.float32 (0, 4)"),
        "not numbers": ({"weights": nan}, "holds numbers that are not finite"),
        "two": ({"weights": two}, "names before .rel_pos_h and .rel_pos_w: layers.0.attn, layers.1.attn"),
        "no such": ({"weights": two, "key": "layers.2.attn"}, "holds 4 tensors and none of them is 'layers.2.attn'"),
        "half": ({"weights": half}, "no key was given; names before .rel_pos_h and .rel_pos_w: none"),
        "neither": ({"weights": none}, "names before .rel_pos_h and .rel_pos_w: none"),
        "one array": ({"weights": str(folder / "array.npy")}, "array.npy holds one array: give a file of two"),
        "no file": ({"weights": str(folder / "away.pt")}, "weights: no such file"),
    }  # fmt: skip


def test_bad_input_is_one_line(tmp_path: Path) -> None:
    for case, (parameters, words) in bad(tmp_path).items():
        with pytest.raises(ValueError, match=re.escape(words)) as caught:
            posenc.build("decomposed_relative", **parameters)
        assert "\n" not in str(caught.value), case


def test_forms_that_there_are_not() -> None:
    with pytest.raises(ValueError, match="size is that of a baked window, a dynamic one takes any: leave it out, or"):
        posenc.build("decomposed_relative", Spec("dynamic"), size=3)
    with pytest.raises(UnsupportedSpec, match="output=scores takes scores of a fixed window: it takes --baked, or"):
        posenc.build("decomposed_relative", Spec("dynamic"), output="scores")
    with pytest.raises(UnsupportedSpec, match="decomposed_relative has no offset form: a window has no first position"):
        posenc.build("decomposed_relative", Spec("dynamic", positions="offset"))
    with pytest.raises(UnsupportedSpec, match="decomposed_relative has no trig form: a bias has no sines"):
        posenc.build("decomposed_relative", Spec("dynamic", "trig"))


def test_the_command_line_says_it_in_one_line(cli: Cli) -> None:
    run = cli("export", "decomposed_relative", "-p", "window=7,0")
    assert run.exit_code == 2
    assert "window must be rows and columns of at least 1, or one number for both, got 7,0" in run.output
