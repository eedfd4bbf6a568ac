"""Rotary tables of random settings, as models compute and store them, for the recognisers."""

from __future__ import annotations

from dataclasses import dataclass

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from posenc.formulas.parts.frequencies import Frequencies
from posenc.rope_types import default, linear, llama3, longrope, proportional, yarn
from posenc_export.read.recognise.rotary.rows import CosSinRows

Settings = dict[str, float | int | bool | tuple[float, ...]]
DTYPES = {"float32": np.dtype(np.float32), "float16": np.dtype(np.float16), "bfloat16": np.dtype(ml_dtypes.bfloat16)}
FUNCTIONS = {
    module.__name__.rsplit(".", 1)[1]: module for module in (default, linear, llama3, longrope, proportional, yarn)
}
BASES = (1e4, 5e5, 1e6, 1.5e5, 10100.0, 8e6)


@dataclass(frozen=True)
class Made:
    """A rope type with settings, and its frequencies in float64."""

    name: str
    dim: int
    theta: float
    settings: Settings

    @property
    def frequencies(self) -> Frequencies:
        """The frequencies by the rope type's reference."""
        made: Frequencies = FUNCTIONS[self.name].reference(self.dim, self.theta, 0, **self.settings)
        return made

    def rows(self, count: int, dtype: str, angles: str = "float32") -> CosSinRows:
        """Return its table, with angles computed in one dtype and stored in another."""
        made, kind = self.frequencies, DTYPES[angles]
        positions = np.arange(count).astype(kind)
        angle = (positions[:, None] * made.inv_freq.astype(kind)).astype(np.float32)
        scale = np.float32(made.attention_factor)
        return CosSinRows((np.cos(angle) * scale).astype(DTYPES[dtype]), (np.sin(angle) * scale).astype(DTYPES[dtype]))


def made_at(name: str, seed: int) -> Made:
    """Return a rope type with random settings that models could have."""
    rng = np.random.default_rng([seed, *name.encode()])
    dim, theta = int(rng.choice([32, 64, 80, 96, 128, 256])), float(rng.choice(BASES))
    factor, context = float(rng.choice([2.0, 4.0, 8.0, 32.0, 2.5])), int(rng.choice([2048, 4096, 8192, 32768]))
    settings: dict[str, Settings] = {
        "default": {},
        "linear": {"factor": factor},
        "llama3": {
            "factor": factor,
            "low_freq_factor": 1.0,
            "high_freq_factor": float(rng.choice([4.0, 2.0, 8.0])),
            "original_max_position_embeddings": context,
        },
        "yarn": {
            "factor": factor,
            "original_max_position_embeddings": context,
            "beta_fast": float(rng.choice([32.0, 16.0, 64.0])),
            "truncate": bool(rng.integers(2)),
        },
        "proportional": {"partial_rotary_factor": float(rng.choice([0.25, 0.5, 0.75]))},
        "longrope": {
            "short_factor": tuple(np.round(np.sort(rng.uniform(1, 3, dim // 2)), 2).tolist()),
            "long_factor": tuple(np.round(np.sort(rng.uniform(1, 60, dim // 2)), 2).tolist()),
            "original_max_position_embeddings": context,
            "factor": factor,
        },
    }
    # a base that is short only in a few digits is not one that longrope can be told by
    return Made(name, dim, 1e4 if name == "longrope" else theta, settings[name])


def shown(rows: CosSinRows) -> NDArray[np.float64]:
    """Return cosines and sines side by side."""
    return np.concatenate([rows.cosine, rows.sine], axis=1).astype(np.float64)
