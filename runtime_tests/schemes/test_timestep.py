"""The embedding of diffusion timesteps, against diffusers and the float64 formula, fractions and all."""

import math
from typing import Any

import numpy as np
import pytest
import torch

import posenc
from helpers.shared import Cli
from posenc.encoding import Encoding
from posenc.ports import Array, Floats, Values
from posenc.spec import Method, Mode, Spec, UnsupportedSpec
from posenc_export.bundle.case import Case
from posenc_export.proof.planning.plan import plan
from posenc_export.proof.planning.scope import Scope
from posenc_export.write.targets.feeds import feeds_for

EXACT: tuple[Mode, ...] = ("baked", "dynamic")
CONFIGS: dict[str, dict[str, Any]] = {
    "DDPM": {"dim": 128},
    "Stable Diffusion": {"dim": 320, "flip_sin_to_cos": True, "downscale_freq_shift": 0.0},
    "Flux, SD3": {"dim": 256, "flip_sin_to_cos": True, "downscale_freq_shift": 0.0},
    "odd": {"dim": 33, "max_period": 100.0},
    "Qwen-Image": {"dim": 256, "flip_sin_to_cos": True, "downscale_freq_shift": 0.0, "scale": 1000.0},
}

DEFAULTS = {"downscale_freq_shift": 1.0, "scale": 1.0, "max_period": 1e4}


def built(params: dict[str, Any], mode: Mode = "dynamic", method: Method = "exact", max_len: int = 1000) -> Encoding:
    return posenc.build("timestep", Spec(mode, method, max_len=max_len), **params)


def steps(most: float, whole: bool) -> Array:
    """Return steps up to an end, with fractions or without, on both sides of the digits' ends."""
    rng = np.random.default_rng(0)
    if whole:
        return np.arange(int(most))
    edges = np.concatenate([np.array([0.0, 0.25, 0.5, 1.0, 31.0, 32.0]) * most / 64, [most, 1e-30, 1e-7]])
    near = np.concatenate([edges, np.nextafter(edges.astype(np.float32), 0), rng.uniform(0, 1, 100)])
    drawn = np.concatenate([near, rng.uniform(0, most, 2000), np.rint(rng.uniform(0, most, 500))])
    return np.concatenate([drawn, -drawn]).astype(np.float32)


def expected(t: Array, params: dict[str, Any]) -> Floats:
    """Return the embedding in float64, a column at a time."""
    dim, flip = params["dim"], params.get("flip_sin_to_cos", False)
    shift, scale, period = (params.get(name, default) for name, default in DEFAULTS.items())
    half = dim // 2
    rows = np.zeros((len(t), dim))
    for i in range(half):
        angle = t.astype(np.float64) * (scale * period ** (-i / (half - shift)))
        rows[:, i], rows[:, half + i] = (np.cos(angle), np.sin(angle)) if flip else (np.sin(angle), np.cos(angle))
    return rows


@pytest.mark.parametrize("mode", EXACT)
@pytest.mark.parametrize("name", CONFIGS)
def test_every_step_is_right_to_3e_7(name: str, mode: Mode) -> None:
    params = CONFIGS[name]
    most = 2 if params.get("scale") else 1000
    for whole in (False, True) if most > 2 else (False,):
        kind = {"steps": "int"} if whole else {}
        t = steps(most, whole)
        y = built({**params, **kind}, mode, max_len=most).module(torch.from_numpy(t)).numpy()
        assert np.abs(y - expected(t, params)).max() <= 3e-7
        assert np.abs(built(params).reference({"timesteps": t}, None)["y"] - expected(t, params)).max() < 2e-12 * 1000


@pytest.mark.parametrize("name", CONFIGS)
def test_it_is_the_embedding_of_diffusers(name: str) -> None:
    """Off by what float32 costs diffusers: its angle has five roundings, the frequency's two among them."""
    theirs = pytest.importorskip("diffusers.models.embeddings").get_timestep_embedding
    params = CONFIGS[name]
    most = 1 if params.get("scale") else 1000
    t = torch.from_numpy(steps(most, whole=False))
    rest = {key: value for key, value in params.items() if key != "dim"}
    y = theirs(t, params["dim"], **rest).numpy()
    allowed = 5 * 2.0**-23 * 1000
    for mode in EXACT:
        assert np.abs(built(params, mode, max_len=most).module(t).numpy() - y).max() <= allowed
    trig = built(params, "dynamic", "trig", most)
    np.testing.assert_allclose(trig.module(t).numpy(), y, rtol=0, atol=allowed)
    assert trig.tolerance(Case("any", {})).atol == 4 * 2.0**-23 * 1000


def test_whole_steps_are_those_of_the_module_of_diffusers() -> None:
    module = pytest.importorskip("diffusers.models.embeddings").Timesteps(320, True, 0)
    t = torch.arange(1000)
    ours = built({**CONFIGS["Stable Diffusion"], "steps": "int"}, "baked").module(t)
    np.testing.assert_allclose(ours.numpy(), module(t).numpy(), rtol=0, atol=1e-4)


@pytest.mark.parametrize("mode", EXACT)
@pytest.mark.parametrize("step", [1001.0, -1001.0, 1e30, math.inf, -math.inf])
def test_steps_beyond_the_end_are_refused(mode: Mode, step: float) -> None:
    with pytest.raises(IndexError) as caught:
        built({"dim": 8}, mode).module(torch.tensor([0.0, step]))
    assert str(caught.value) == f"steps must be numbers in -1000..1000, got {np.float32(step)!s} at [1]"


@pytest.mark.parametrize("mode", EXACT)
def test_half_a_unit_beyond_the_end_is_answered_rightly_and_more_is_refused(mode: Mode) -> None:
    """The rule of docs/reference/runtimes.md: what a graph answers beyond the range is right."""
    encoding = built({"dim": 8}, mode)
    half = 0.5 / encoding.module.waves.units  # type: ignore[union-attr,operator]
    assert half <= 0.5
    beyond = torch.tensor([1000 + half, -1000 - half])
    y = encoding.module(beyond).numpy()
    assert np.abs(y - expected(beyond.numpy(), {"dim": 8})).max() <= 3e-7
    for step in beyond.tolist():
        with pytest.raises(IndexError, match="steps must be numbers in"):
            encoding.module(torch.tensor([np.nextafter(np.float32(step), np.float32(2 * step))]))


@pytest.mark.parametrize("mode", EXACT)
def test_nan_is_refused_or_stays_nan(mode: Mode) -> None:
    try:
        y = built({"dim": 8}, mode).module(torch.tensor([0.0, math.nan]))
    except IndexError:
        return
    assert torch.isnan(y[1]).all()


@pytest.mark.parametrize(("mode", "end"), [("baked", 1000), ("dynamic", 2**24)])
def test_whole_steps_are_refused_below_0_and_beyond_the_end(mode: Mode, end: int) -> None:
    encoding = built({"dim": 8, "steps": "int"}, mode)
    assert encoding.end == end
    for step in (-1, end):
        with pytest.raises(IndexError, match=r"positions must be in 0\.\."):
            encoding.module(torch.tensor([0, step]))


def test_the_ends_are_tried_and_what_is_beyond_them() -> None:
    encoding = built({"dim": 8}, max_len=70)
    cases = plan(Scope(encoding, {"batch": 11}, 70)).cases
    assert {case.first for case in cases if case.refused} == {-71, 71}
    for case in cases:
        (numbers,) = feeds_for(encoding.inputs, case, 0).values()
        if case.refused:
            assert set(numbers.tolist()) == {case.first}
        elif case.sizes["batch"] > 10 and not case.probe_values:
            assert {-70.0, 70.0} <= set(numbers.tolist())
            assert np.abs(numbers).max() == 70
            assert 3 <= np.sum(numbers == np.rint(numbers)) < len(numbers) / 2
    trig = built({"dim": 8}, "dynamic", "trig", 70)
    assert trig.inputs[0].carries == Values(-70.0, 70.0)
    assert not any(case.refused for case in plan(Scope(trig, {"batch": 11}, 70)).cases)


def test_tables_are_small() -> None:
    """Two digits of half steps up to 1000: 64 rows and 32."""
    sizes = {name: tuple(buffer.shape) for name, buffer in built({"dim": 256}).module.named_buffers()}
    assert sizes["waves.low_sin"] == (64, 128)
    assert sizes["waves.high_sin"] == (32, 128)


def test_float16_holds_as_many_steps_as_it_says() -> None:
    assert built({"dim": 8}, max_len=32752).half_safe == ""
    assert built({"dim": 8}, max_len=32753).half_safe.startswith("float16 ends at 65504")


@pytest.mark.parametrize(
    ("given", "line"),
    [
        ("dim=1", "dim must be at least 2, got 1"),
        ("dim=2", "downscale_freq_shift must be below the 1 frequencies of dim=2, got 1.0"),
        ("downscale_freq_shift=nan", "downscale_freq_shift must be below the 128 frequencies of dim=256, got nan"),
        ("scale=0", "scale must be a finite number above 0, got 0.0"),
        ("max_period=1", "max_period must be a finite number above 1, got 1.0"),
        ("steps=half", "steps must be float or int, got 'half'"),
    ],
)
def test_a_bad_parameter_is_one_line(cli: Cli, given: str, line: str) -> None:
    result = cli("export", "timestep", "-p", given, "-o", "out")
    assert result.exit_code == 2
    assert result.output.strip() == f"Error: {line}"


def test_what_float32_cannot_count_is_refused() -> None:
    with pytest.raises(ValueError, match="max_len must be at most 16777216 where steps are floats, got 16777217"):
        built({"dim": 2, "downscale_freq_shift": 0.0}, max_len=2**24 + 1)
    with pytest.raises(UnsupportedSpec, match="steps are an input"):
        posenc.build("timestep", Spec(positions="implicit"))
