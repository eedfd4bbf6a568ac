"""The embedding of diffusion timesteps: sines and cosines of a step, a row for each sequence of a batch.

angle = scale * t * max_period^(-i / (half - downscale_freq_shift)), i = 0, ..., half - 1, with half = dim // 2

DDPM (arXiv:2006.11239) has a shift of 1; ADM (arXiv:2105.05233) and its successors have 0, and cosines first.
Parameters and their defaults are those of `get_timestep_embedding` in diffusers.

Steps may be fractions and negative numbers: EDM's schedules give log(sigma) / 4. Steps beyond -max_len..max_len are
refused, infinity too: the C++ class refuses all of them; a graph refuses those that are farther out than half of its
unit, which is 1 or a fraction of it, and answers the others rightly. A graph refuses NaN, or answers it with NaN where
the machine casts it to 0. Whole steps are positions: a negative step, or one beyond a table, is refused. --method trig
refuses nothing.
"""

import math
from functools import partial
from typing import Annotated, Literal

import numpy as np

from posenc.encoding import Encoding, Probes
from posenc.formulas.timestep import reference
from posenc.ports import Axis, Floats, Port, Positions, Values
from posenc.ranges import above, minimum
from posenc.scheme import Unsupported, scheme
from posenc.sincos import sincos, sincos_of_steps
from posenc.sources.features import encode as features
from posenc.spec import Spec

STEPS = Axis("batch", "length")
"""Steps run along the batch, so that a plan tries as many in a call as of positions."""
AS_INPUT = "steps are an input, one for each sequence of a batch; use --positions explicit"


@scheme(
    "timestep",
    paper="arXiv:2006.11239; cosines first, and no shift: arXiv:2105.05233",
    formula="PE[t, i] = sin(w_i t), PE[t, dim/2 + i] = cos(w_i t), w_i = scale * max_period^(-i / (dim/2 - shift))",
    models=("DDPM", "Stable Diffusion", "SDXL", "SVD", "SD3", "Flux", "DiT", "PixArt", "Qwen-Image", "Wan"),
    samples=({"dim": 8}, {"dim": 9, "flip_sin_to_cos": True, "downscale_freq_shift": 0.0, "scale": 3.0}),
    positions="explicit",
    unsupported=Unsupported(positions={"implicit": AS_INPUT, "offset": AS_INPUT, "mask": AS_INPUT}),
)
def timestep(
    spec: Spec,
    *,
    dim: Annotated[int, minimum(2)] = 256,
    flip_sin_to_cos: bool = False,
    downscale_freq_shift: float = 1.0,
    scale: Annotated[float, above(0)] = 1.0,
    max_period: Annotated[float, above(1)] = 10000.0,
    steps: Literal["float", "int"] = "float",
) -> Encoding:
    """Sines and cosines of diffusion timesteps, as in get_timestep_embedding of diffusers.

    Args:
        dim: features; if the number is odd, the last is 0.
        flip_sin_to_cos: cosines before sines (Stable Diffusion, Flux).
        downscale_freq_shift: subtracted from dim / 2 in the exponent of a frequency (Stable Diffusion, Flux: 0).
        scale: multiplies every angle (Qwen-Image: 1000, for steps from 0 to 1).
        max_period: the slowest wavelength is about 2 pi times this.
        steps: "float" fractions and negative numbers too, from -max_len to max_len; "int" from 0 to max_len - 1.
    """
    pairs = dim // 2
    if not (math.isfinite(downscale_freq_shift) and downscale_freq_shift < pairs):
        got = f"the {pairs} frequencies of dim={dim}, got {downscale_freq_shift}"
        raise ValueError(f"downscale_freq_shift must be below {got}")
    inv_freq = scale * max_period ** (-np.arange(pairs, dtype=np.float64) / (pairs - downscale_freq_shift))
    formula = partial(
        reference, dim=dim, first=flip_sin_to_cos, shift=downscale_freq_shift, scale=scale, period=max_period
    )
    layout = features.ColumnLayout(pairs, pairs, cos_first=flip_sin_to_cos, zero=dim % 2 == 1)
    encode = _of_floats if steps == "float" else _of_integers
    return encode(spec, inv_freq, partial(features.encode, spec=spec, layout=layout, formula=formula))


def _of_integers(spec: Spec, inv_freq: Floats, encode: "partial[Encoding]") -> Encoding:
    """Return the encoding of whole steps, which are positions."""
    source, fastest = sincos(spec, inv_freq), float(inv_freq.max())
    port = Port("timesteps", (STEPS,), spec.index_dtype, Positions(source.end))
    return encode(
        source, x=port, largest=lambda p: math.ceil(p * max(1.0, fastest)), end=source.end, probes=source.probes
    )


def _of_floats(spec: Spec, inv_freq: Floats, encode: "partial[Encoding]") -> Encoding:
    """Return the encoding of steps with fractions, which are in the dtype of angles, whatever that of the output is."""
    source, end = sincos_of_steps(spec, inv_freq), spec.max_len
    values = Values(-float(end), float(end), strict=source.end is not None)
    port = Port("timesteps", (STEPS,), spec.angle_dtype, values)
    largest, probes = math.ceil(end * max(1.0, float(inv_freq.max()))), Probes(values=source.probes.values)
    return encode(source, x=port, largest=lambda _: largest, probes=probes)
