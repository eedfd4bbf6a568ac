"""Attention temperature by position: what queries far along in a text are multiplied by (Llama 4, Ministral 3).

scale[p] = 1 + beta log(1 + floor((p + offset) / step))

Llama 4 multiplies the queries of its layers without rotary encoding, and counts positions from 1; Ministral 3 and
Mistral 4 multiply all queries after the rotation, and count from 0. A factor of a whole head commutes with its
rotation. Models divide in float32, whose quotients have the right whole part below 2^24 positions; integers are divided
here, and have it always.
"""

from functools import partial
from typing import Annotated

import numpy as np
import torch

from posenc.encoding import Encoding
from posenc.formulas.attention_temperature import factors, reference
from posenc.joins.rows import RowsOutput
from posenc.ports import Floats, Integers
from posenc.ranges import above, minimum
from posenc.scheme import TRIED, Unsupported, scheme
from posenc.sincos import check_table
from posenc.sources.rows import additive
from posenc.sources.rows.steps import Steps
from posenc.spec import Spec

NO_X = "factors have a row for each position and no x whose length could give one; use --positions explicit or mask"
EDGES = 64
"""Steps whose both sides are tried, the first ones; the last step is tried as well."""


@scheme(
    "attention_temperature",
    paper="arXiv:2501.19399 (scalable softmax), as Llama 4 has it",
    formula="scale[p] = 1 + beta log(1 + floor((p + offset) / step))",
    models=("Llama 4", "Ministral 3", "Mistral 4"),
    positions="explicit",
    not_held={"_edges": TRIED},
    samples=({"step": 4}, {"step": 3, "offset": 1, "beta": 0.5}),
    unsupported=Unsupported(
        modes={"dynamic": "runtimes round a logarithm differently, and a stored row is exact; use --baked"},
        positions={"implicit": NO_X, "offset": NO_X},
    ),
)
def attention_temperature(
    spec: Spec,
    *,
    beta: Annotated[float, above(0)] = 0.1,
    step: Annotated[int, minimum(1)] = 8192,
    offset: Annotated[int, minimum(0)] = 0,
) -> Encoding:
    """Factors of queries that grow with the logarithm of their position, by steps: (batch, seq, 1).

    Args:
        beta: what multiplies the logarithm (Llama 4: attn_scale; Ministral 3: llama_4_scaling_beta).
        step: positions that have the same factor (Llama 4: floor_scale; Ministral 3:
            original_max_position_embeddings).
        offset: added to every position (Llama 4: 1, Ministral 3: 0).
    """
    check_table(spec, 1)
    formula = partial(reference, beta=beta, step=step, offset=offset)
    source = Steps(
        partial(_factors, beta=beta, step=step, offset=offset),
        partial(factors, beta=beta, step=step, offset=offset),
        max_len=spec.max_len,
        dtype=getattr(torch, spec.angle_dtype),
        edges=_edges(spec.max_len, step, offset),
    )
    return additive.encode(source, spec, RowsOutput("rows", 1), formula=formula)


def _factors(positions: Integers, *, beta: float, step: int, offset: int) -> Floats:
    """Return the factors in float64, by a division of integers: (n,) -> (n,)."""
    return np.asarray(1.0 + beta * np.log1p((positions + offset) // step))


def _edges(max_len: int, step: int, offset: int) -> tuple[int, ...]:
    """Return the positions on both sides of the first steps, and of the last."""
    last = (max_len - 1 + offset) // step
    firsts = [whole * step - offset for whole in (*range(1, min(last, EDGES) + 1), last)]
    return tuple(edge + side for edge in firsts for side in (-1, 0))
