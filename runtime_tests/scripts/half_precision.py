"""What half precision costs a whole model, by where its text begins: run by hand, not by pytest.

python runtime_tests/scripts/half_precision.py                trains a small Llama on a book, and prints the table
python runtime_tests/scripts/half_precision.py --write        puts it into docs/reference/measured/models.md

Rotary positions are relative, so that a text means the same wherever it begins: what differs is what a model's own
arithmetic loses. Each way to have the model in half is led along 200 tokens that float32 writes with exact positions.
It takes some minutes on two cores.
"""

from __future__ import annotations

import argparse
import copy
import datetime
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import torch
import transformers
from torch import Tensor, nn

from helpers.book import TEXT, train
from helpers.made_parts import put_part
from posenc_export.common.markdown import table
from posenc_models import ModelFolder

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "measured" / "models.md"
STARTS = (0, 8_000, 60_000)
TOKENS, PROMPT = 200, 24
STEPS, LENGTH = 150, 64
DTYPES: Mapping[str, torch.dtype] = {"fp16": torch.float16, "bf16": torch.bfloat16}
CONFIG: Mapping[str, Any] = {
    "vocab_size": 256,
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 65536,
    "tie_word_embeddings": False,
}


@dataclass(frozen=True)
class Cost:
    """What a way to have a model in half precision costs where a text begins at a position.

    Args:
        same: tokens that are those of float32, of `TOKENS`.
        off: the largest difference of a logit, as a share of the largest logit.
    """

    same: int
    off: float


def save_model(folder: Path) -> None:
    """Write the folder of a model that has read a book for a minute."""
    torch.manual_seed(0)
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**CONFIG))
    loss = train(model, STEPS, LENGTH, lambda ids: {"input_ids": ids, "labels": ids})
    print(f"loss {loss:.2f}", flush=True)
    model.save_pretrained(folder)


def exact(folder: Path, dtype: torch.dtype) -> nn.Module:
    """The model with our positions, as `posenc export --dtype` has it."""
    name = next(name for name, one in DTYPES.items() if one is dtype)
    model = ModelFolder.load(folder, dtype=name).build().module.model  # type: ignore[arg-type]
    assert isinstance(model, nn.Module)
    return model


def loaded(folder: Path, dtype: torch.dtype) -> nn.Module:
    """The model as transformers loads it in half: its angles are computed in float32."""
    model: nn.Module = transformers.LlamaForCausalLM.from_pretrained(folder, dtype=dtype).eval()
    return model


def converted(folder: Path, dtype: torch.dtype) -> nn.Module:
    """The model of float32, converted by `.to`: frequencies are rounded with the weights."""
    return loaded(folder, torch.float32).to(dtype)


class HalfRotary(nn.Module):
    """Cosines and sines whose angles are in half, as in a graph that a converter put into half."""

    def __init__(self, inv_freq: Tensor) -> None:
        super().__init__()
        self.inv_freq = inv_freq

    def forward(self, x: Tensor, position_ids: Tensor) -> tuple[Tensor, Tensor]:
        """Return cosines and sines: (batch, seq, features)."""
        angles = position_ids[..., None].to(x.dtype) * self.inv_freq
        both = torch.cat([angles, angles], -1)
        return both.cos(), both.sin()


def in_half_throughout(folder: Path, dtype: torch.dtype) -> nn.Module:
    """The model in half with its angles, as a converter of ONNX files leaves it; computed by PyTorch."""
    model: Any = loaded(folder, dtype)
    model.model.rotary_emb = HalfRotary(model.model.rotary_emb.inv_freq.to(dtype))
    made: nn.Module = model
    return made


WAYS: Mapping[str, Callable[[Path, torch.dtype], nn.Module]] = {
    "`posenc export --dtype`": exact,
    "`from_pretrained(dtype=...)`": loaded,
    "`.to(dtype)` of the float32 model": converted,
    "angles in half, as converters of graphs leave them": in_half_throughout,
}


def logits_of(model: nn.Module, ids: Tensor, start: int) -> Tensor:
    """Return logits of a text that begins at a position: (tokens, vocabulary)."""
    places = torch.arange(start, start + ids.shape[1])[None]
    with torch.no_grad():
        logits: Tensor = model(input_ids=ids, position_ids=places).logits[0]
    return logits[PROMPT - 1 : -1].double()


def written(model: nn.Module) -> Tensor:
    """Return the first letters of the book, and what a model writes behind them."""
    ids = torch.frombuffer(bytearray(TEXT.read_bytes()[:PROMPT]), dtype=torch.uint8).long()[None]
    for _ in range(TOKENS):
        with torch.no_grad():
            ids = torch.cat([ids, model(input_ids=ids).logits[:, -1:].argmax(-1)], 1)
    return ids


def measure(folder: Path) -> dict[tuple[str, str], list[Cost]]:
    """Return what each way costs, in each dtype, by where the text begins."""
    whole: Any = ModelFolder.load(folder).build().module.model
    ids = written(whole)
    precise = logits_of(copy.deepcopy(whole).double(), ids, 0)
    found: dict[tuple[str, str], list[Cost]] = {}
    for name, make in WAYS.items():
        for dtype, torch_dtype in DTYPES.items():
            model = make(folder, torch_dtype)
            for start in STARTS:
                logits = logits_of(model, ids, start)
                same = int((logits.argmax(-1) == ids[0, PROMPT:]).sum())
                cost = Cost(same, ((logits - precise).abs().max() / precise.abs().max()).item())
                found.setdefault((name, dtype), []).append(cost)
                print(name, dtype, start, cost, flush=True)
    return found


def summary(found: Mapping[tuple[str, str], list[Cost]]) -> str:
    """Return the text between the markers of the page."""
    head = ("weights and numbers in half", "dtype", *(f"from {start:,}" for start in STARTS))
    rows = [
        (name, dtype, *(f"{cost.same} of {TOKENS}; {cost.off:.1e}" for cost in costs))
        for (name, dtype), costs in found.items()
    ]
    libraries = ", ".join(f"{name} {version(name)}" for name in ("transformers", "torch"))
    return (
        f"Measured on {datetime.date.today().isoformat()} with {libraries}: tokens that are those of float32, and the "
        f"largest difference of a logit as a share of the largest.\n\n{table(head, rows)}\n"
    )


def main() -> None:
    """Train, measure, print, and put the table into the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="put the table into docs/reference/measured/models.md")
    options = parser.parse_args()
    transformers.logging.set_verbosity_error()
    with tempfile.TemporaryDirectory() as folder:
        save_model(Path(folder))
        text = summary(measure(Path(folder)))
    if options.write:
        put_part(PAGE, "half", text)
    print(text)


if __name__ == "__main__":
    main()
