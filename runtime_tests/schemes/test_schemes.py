"""What each scheme accepts, and what it refuses."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import posenc
from posenc.registry import Registry, UnknownName

BAKED = posenc.Spec(max_len=20)
TRIG = posenc.Spec(mode="dynamic", method="trig")


@pytest.mark.parametrize("d_model", [1, 2, 5, 6, 33])
@pytest.mark.parametrize("layout", ["interleaved", "halves"])
@pytest.mark.parametrize("spec", [BAKED, posenc.Spec(mode="dynamic"), TRIG])
def test_any_width_and_layout(d_model: int, layout: str, spec: posenc.Spec) -> None:
    encoding = posenc.build("sinusoidal", spec, d_model=d_model, layout=layout)
    x = torch.randn(2, 13, d_model)
    expected = encoding.reference({"x": x.numpy()}, None)["y"]
    np.testing.assert_allclose(encoding.module(x).numpy(), expected, atol=5e-6)


def test_self_adjusting_width_length_and_dtype_without_state() -> None:
    module = posenc.build("sinusoidal", TRIG, d_model="auto").module
    before = {k: id(v) for k, v in vars(module).items()}
    for shape in ((1, 4, 6), (3, 9, 7), (2, 1, 1), (1, 4, 6)):
        x = torch.zeros(shape)
        of_one_width = posenc.build("sinusoidal", TRIG, d_model=shape[-1]).module
        torch.testing.assert_close(module(x), of_one_width(x), atol=1e-6, rtol=0)
    assert before == {k: id(v) for k, v in vars(module).items()}


def test_the_whole_table_takes_no_input() -> None:
    rows = posenc.build("sinusoidal", posenc.Spec(max_len=10), d_model=6, output="table").module()
    assert rows.shape == (10, 6)
    torch.testing.assert_close(rows[0], torch.tensor([0.0, 1, 0, 1, 0, 1]))


@pytest.mark.parametrize(
    ("spec", "params", "text"),
    [
        (BAKED, {"d_model": 0}, "d_model must be at least 1, got 0"),
        (BAKED, {"d_model": 7, "strict_even": True}, "d_model must be even with strict_even, got 7"),
        (BAKED, {"base": 1.0}, "base must be a finite number above 1, got 1.0"),
        (BAKED, {"d_model": "auto"}, "d_model=auto has no table to store: it takes --dynamic --method trig"),
        (posenc.Spec(mode="dynamic"), {"d_model": "auto"}, "--dynamic --method trig"),
        (posenc.Spec(mode="dynamic"), {"output": "table"}, "output=table is a constant"),
        (
            posenc.Spec("dynamic", "trig", "explicit"),
            {"d_model": "auto", "output": "rows"},
            "no x to take d_model=auto",
        ),
    ],
)
def test_what_sinusoidal_refuses(spec: posenc.Spec, params: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        posenc.build("sinusoidal", spec, **params)


def test_learned_has_a_hard_limit_in_eager() -> None:
    spec = posenc.Spec(max_len=8)
    module = posenc.build("learned", spec, d_model=4).module
    assert module(torch.zeros(1, 8, 4)).shape == (1, 8, 4)
    with pytest.raises(ValueError, match="length 9 is beyond the 8 positions"):
        module(torch.zeros(1, 9, 4))
    explicit = posenc.build("learned", posenc.Spec(max_len=8, positions="explicit"), d_model=4, output="rows").module
    for position in (8, -1):
        with pytest.raises(IndexError, match=r"positions must be in 0\.\.7"):
            explicit(torch.tensor([[0, position]]))


def test_learned_is_trainable_and_has_no_dynamic_form() -> None:
    module = posenc.build("learned", posenc.Spec(max_len=8), d_model=4).module
    module(torch.zeros(1, 8, 4)).sum().backward()
    assert [tuple(p.grad.shape) for p in module.parameters() if p.grad is not None] == [(8, 4)]
    with pytest.raises(ValueError, match=r"learned has no dynamic form: .* use --baked"):
        posenc.build("learned", posenc.Spec(mode="dynamic"))


def test_the_width_of_x_must_fit() -> None:
    for name in ("sinusoidal", "learned"):
        module = posenc.build(name, posenc.Spec(max_len=8), d_model=4).module
        with pytest.raises(ValueError, match="x has 1 features, this encoding has 4"):
            module(torch.zeros(1, 3, 1))


def written(folder: Path, kind: str) -> tuple[Path, torch.Tensor]:
    table = torch.randn(12, 4)
    path = folder / f"weights{kind}"
    if kind == ".npy":
        np.save(path, table.numpy())
    elif kind == ".safetensors":
        from safetensors.torch import save_file

        save_file({"wpe.weight": table, "other": torch.zeros(3)}, path)
    else:
        torch.save({"wpe.weight": table, "other": torch.zeros(3)}, path)
    return path, table


@pytest.mark.parametrize("kind", [".npy", ".safetensors", ".pt"])
def test_learned_weights_from_a_file(tmp_path: Path, kind: str) -> None:
    path, table = written(tmp_path, kind)
    module = posenc.build("learned", posenc.Spec(max_len=10), weights=str(path)).module
    torch.testing.assert_close(module(torch.zeros(1, 10, 4))[0], table[:10])


def test_learned_weights_by_key_and_what_goes_wrong_with_them(tmp_path: Path) -> None:
    path = tmp_path / "two.pt"
    torch.save({"a": torch.ones(12, 4), "b": torch.zeros(12, 4)}, path)
    spec = posenc.Spec(max_len=12)
    assert posenc.build("learned", spec, weights=str(path), key="a").module(torch.zeros(1, 1, 4)).sum() == 4

    def refused(text: str, spec: posenc.Spec = spec, **params: Any) -> None:
        with pytest.raises(ValueError, match=text):
            posenc.build("learned", spec, **params)

    refused("key is one of a, b", weights=str(path))
    refused("it has no 'c'; key is one of a, b", weights=str(path), key="c")
    refused("no such file", weights=str(tmp_path / "none.npy"))
    refused("weights must be one of .npy", weights="weights.txt")
    refused("max_len must be at most the 12 rows", posenc.Spec(max_len=13), weights=str(path), key="a")
    refused(r"weights: a must be \(rows, d_model\) = \(12, 5\), got \(12, 4\)", weights=str(path), key="a", d_model=5)
    refused("key names a tensor in a file", key="a")
    refused("std must be a finite number above 0", std=0.0)
    bad = tmp_path / "bad.npy"
    bad.write_bytes(b"not numpy at all")
    refused("cannot read .*bad.npy as .npy", weights=str(bad))
    np.save(bad, np.arange(6).reshape(2, 3))
    refused("weights must be floats of shape", posenc.Spec(max_len=2), weights=str(bad))
    np.save(bad, np.full((2, 3), np.nan))
    refused("not finite", posenc.Spec(max_len=2), weights=str(bad))


def test_weights_are_never_unpickled(tmp_path: Path) -> None:
    class Evil:
        def __reduce__(self) -> Any:
            return (Path.touch, (tmp_path / "owned",))

    path = tmp_path / "evil.pt"
    torch.save({"a": Evil()}, path)
    with pytest.raises(ValueError, match="cannot read"):
        posenc.build("learned", BAKED, weights=str(path))
    np.save(tmp_path / "evil.npy", np.array([Evil()], dtype=object), allow_pickle=True)
    with pytest.raises(ValueError, match="cannot read"):
        posenc.build("learned", BAKED, weights=str(tmp_path / "evil.npy"))
    assert not (tmp_path / "owned").exists()


def test_a_registry_is_write_once_and_suggests_the_nearest_name() -> None:
    registry: Registry[int] = Registry("thing")
    registry.add("first", 1)
    with pytest.raises(ValueError, match="thing 'first' is registered twice"):
        registry.add("first", 2)
    with pytest.raises(UnknownName, match="unknown thing 'frist': did you mean 'first'"):
        registry["frist"]
    assert list(registry) == ["first"]
    assert len(registry) == 1
