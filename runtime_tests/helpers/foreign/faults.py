"""Files with the faults that were reported of exporters: each is made as the code in question made it, or rebuilt."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import cast
from unittest.mock import patch

import numpy as np
import torch
from torch import Tensor, nn

from helpers.foreign.built import TRACED, make
from helpers.foreign.exporters import EXPORTERS, without_traces
from helpers.foreign.towers import TINY
from helpers.foreign.truth import Held
from helpers.foreign.worker import eager

Change = Callable[[nn.Module], AbstractContextManager[object] | None]


@dataclass(frozen=True)
class Fault:
    """A fault of a file.

    Args:
        model: which model it is a file of.
        change: what is done to the model before it is exported; it may return a patch of its code.
        must_find: what a reader must find, in words.
        held_in_file: what the file holds instead.
        config: what differs in the config of the model that is exported.
        source: where it was reported.
    """

    model: str
    change: Change
    must_find: str
    held_in_file: tuple[Held, ...]
    config: Mapping[str, object]
    source: str

    @property
    def exported(self) -> str:
        """The name of the exporter that writes it."""
        return "plain old"


def parameters(model: str, **changed: object) -> tuple[Held, ...]:
    """Return what a model holds with some parameters changed."""
    return tuple(replace(row, parameters={**row.parameters, **changed}) for row in TINY[model].held)  # type: ignore[dict-item]


def rotary_module(model: nn.Module) -> nn.Module:
    """Return the module of a model that makes cosines and sines."""
    return next(module for module in model.modules() if "RotaryEmbedding" in type(module).__name__)


def zero(model: nn.Module) -> None:
    """Set all frequencies to zero, as an export from the meta device does."""
    cast(Tensor, rotary_module(model).inv_freq).zero_()


def no_factor(model: nn.Module) -> None:
    """Forget the attention factor."""
    rotary_module(model).attention_scaling = 1.0  # type: ignore[assignment]


def unchanged(model: nn.Module) -> None:
    """Change nothing: the config says it all."""


def in_half(model: nn.Module, dtype: torch.dtype) -> AbstractContextManager[object]:
    """Compute angles in half precision, and the rest as before."""
    module = rotary_module(model)

    def forward(x: Tensor, position_ids: Tensor) -> tuple[Tensor, Tensor]:
        """Return cosines and sines of rounded angles."""
        inv_freq, positions = cast(Tensor, module.inv_freq).to(dtype), position_ids[..., None].to(dtype)
        if dtype is torch.bfloat16:  # ONNX Runtime multiplies none on a processor; rounded once, products are the same
            angles = (positions.float() * inv_freq.float()).to(dtype).float()
        else:
            angles = (positions * inv_freq).float()
        angles = torch.cat((angles, angles), -1)
        return angles.cos(), angles.sin()

    return patch.object(module, "forward", forward)


def short_table(model: nn.Module) -> AbstractContextManager[object]:
    """Read cosines and sines from a table that has as many rows as the traced length."""
    module = rotary_module(model)
    # what a trace makes of a length that Python read as a number
    angles = torch.arange(TRACED).float()[:, None] * cast(Tensor, module.inv_freq)
    angles = torch.cat((angles, angles), -1)
    module.register_buffer("cos_cached", angles.cos())
    module.register_buffer("sin_cached", angles.sin())

    def forward(x: Tensor, position_ids: Tensor) -> tuple[Tensor, Tensor]:
        """Return rows of the tables."""
        return cast(Tensor, module.cos_cached)[position_ids], cast(Tensor, module.sin_cached)[position_ids]

    return patch.object(module, "forward", forward)


def halves_of_gptj(model: nn.Module) -> AbstractContextManager[object]:
    """Rotate halves where pairs are neighbours."""
    import transformers.models.gptj.modeling_gptj as code

    def apply(tensor: Tensor, sin: Tensor, cos: Tensor) -> Tensor:
        """Return features rotated, the first half of them with the second."""
        first, second = tensor.chunk(2, -1)
        sin, cos = (torch.cat((rows, rows), -1)[:, :, None, :] for rows in (sin, cos))
        return tensor * cos + torch.cat((-second, first), -1) * sin

    return patch.object(code, "apply_rotary_pos_emb", apply)


def last_features(model: nn.Module) -> AbstractContextManager[object]:
    """Rotate the last features of a head where the first ones are meant."""
    import transformers.models.gpt_neox.modeling_gpt_neox as code

    right = cast(Callable[..., tuple[Tensor, Tensor]], code.apply_rotary_pos_emb)

    def apply(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor, unsqueeze_dim: int = 1) -> tuple[Tensor, Tensor]:
        """Return queries and keys, what is to pass first."""
        width = cos.shape[-1]
        rotated = right(q[..., width:], k[..., width:], cos, sin, unsqueeze_dim)
        return torch.cat((q[..., :width], rotated[0]), -1), torch.cat((k[..., :width], rotated[1]), -1)

    return patch.object(code, "apply_rotary_pos_emb", apply)


def noise_from(dtype: torch.dtype, width: int = 32) -> int:
    """Return the first position at which a cosine of an angle in half precision is off by more than 0.1."""
    positions = torch.arange(20000)
    inv_freq = 10000.0 ** (-torch.arange(0, width, 2).double() / width)
    exact = positions[:, None].double() * inv_freq
    rounded = (positions[:, None].to(dtype) * inv_freq.to(dtype)).double()
    # a tenth of the amplitude: queries and keys of neighbours cannot be told apart beyond it
    off = (exact.cos() - rounded.cos()).abs().amax(1).numpy()
    return int(np.flatnonzero(off > 0.1)[0])


# transformers rounds the ends of the ramp to whole pairs unless truncate is false
YARN = {**TINY["llama-yarn"].config}
for _name in ("rope_parameters", "rope_scaling"):
    YARN[_name] = {**cast(Mapping[str, object], YARN[_name]), "truncate": False}
FAULTS: Mapping[str, Fault] = {
    "zero": Fault("llama", zero, "cos 1 and sin 0 everywhere: no position", (), {}, "executorch#19627"),
    "no-attention-factor": Fault(
        "llama-yarn",
        no_factor,
        "attention factor 1 where the config gives 1.1386",
        parameters("llama-yarn", attention_factor=1.0),
        {},
        "executorch#19235",
    ),
    "yarn-no-truncate": Fault(
        "llama-yarn",
        unchanged,
        "yarn without truncate, where the config truncates",
        parameters("llama-yarn", truncate=False),
        YARN,
        "onnxruntime-genai#2076",
    ),
    "nope-inverted": Fault(
        "smollm3",
        unchanged,
        "layer 1 is rotated and layer 0 is not, the other way round than the config",
        tuple(replace(row, layers=(1,)) for row in TINY["smollm3"].held),
        {"no_rope_layers": [0, 1]},
        "mobius#233",
    ),
    "halves": Fault(
        "gptj",
        halves_of_gptj,
        "pairs are halves, and interleaved in the config",
        parameters("gptj", layout="halves"),
        {},
        "coreai-models#66",
    ),
    "last-features": Fault(
        "gpt_neox",
        last_features,
        "the last 8 features of 16 are rotated, and the first ones in the config",
        parameters("gpt_neox", first_feature=8),
        {},
        "",
    ),
    "traced-table": Fault(
        "llama",
        short_table,
        "a table of 11 rows, the traced length",
        parameters("llama", rows=TRACED),
        {},
        "sparseml#1826",
    ),
    "float16-angles": Fault(
        "llama",
        partial(in_half, dtype=torch.float16),
        f"angles in float16, off by 0.1 from position {noise_from(torch.float16)}",
        parameters("llama", angles="float16"),
        {},
        "openvino#34716",
    ),
    "bfloat16-angles": Fault(
        "llama",
        partial(in_half, dtype=torch.bfloat16),
        f"angles in bfloat16, off by 0.1 from position {noise_from(torch.bfloat16)}",
        parameters("llama", angles="bfloat16"),
        {},
        "openvino#36719, cactus#688",
    ),
}


def write(name: str, folder: Path) -> Path:
    """Write the file of a fault, and what the right model gives beside it."""
    fault, tiny = FAULTS[name], TINY[FAULTS[name].model]
    folder.mkdir(parents=True, exist_ok=True)
    np.savez(folder / "eager.npz", **eager(make(tiny)))  # type: ignore[arg-type]
    made = make(replace(tiny, config={**tiny.config, **fault.config}))
    with fault.change(made.bare) or nullcontext():
        written = EXPORTERS[fault.exported](made, folder)
    path = folder / f"{fault.model}.fault-{name}.onnx"
    without_traces(written, path)
    return path
