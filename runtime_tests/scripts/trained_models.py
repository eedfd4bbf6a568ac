"""Models of each type that have read a book, each given to `posenc export --model`: run by hand, not by pytest.

python runtime_tests/scripts/trained_models.py              trains and exports every model, and prints what came of it
python runtime_tests/scripts/trained_models.py llama t5     these types alone
python runtime_tests/scripts/trained_models.py --keep FILE  goes on with what FILE has, and keeps the rest there
python runtime_tests/scripts/trained_models.py --write      puts the table into docs/reference/measured/models.md

Weights at random say nothing, and differences between logits are then those of noise. These models read a page of a
book, a byte a token, for half a minute. What is asked of their files is what `model_folders.py` asks.
"""

from __future__ import annotations

import argparse
import datetime
import sys
import warnings
from dataclasses import asdict, dataclass, fields
from importlib.metadata import version
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from helpers.book import train
from helpers.made_parts import put_part
from helpers.model_folders import CAUSAL, MASKED, MODELS, SEQ2SEQ, Small
from posenc_export.common.markdown import table
from scripts.model_folders import PAGE, Measured, gather, measure
from scripts.model_folders import row as row_of_folder

STEPS, LENGTH = 600, 64
LOSS = "loss"
"""The file, beside a model's folder, that says the last one."""
START = b"Alice was "
WIDTHS = (
    "hidden_size",
    "intermediate_size",
    "moe_intermediate_size",
    "d_model",
    "d_ff",
    "n_embd",
    "word_embed_proj_dim",
)
STACKS = ("encoder_ffn_dim", "decoder_ffn_dim", "ffn_dim")
SAID = f'after "{START.decode()}"'
HEAD = ("model", "type", "verdict", "error against float64", "tokens", "`generate`", "loss", SAID)


@dataclass(frozen=True)
class Trained(Small):
    """A small model that has read a book; its vocabulary are the bytes."""

    def save(self, folder: Path) -> None:
        """Train the model, and write its folder."""
        import torch
        import transformers

        torch.manual_seed(self.seed)
        config = transformers.AutoConfig.for_model(self.kind, **self.config)
        model = getattr(transformers, self.auto).from_config(config).train()
        loss = train(model, STEPS, 2 * LENGTH, self._inputs, clip=1.0)
        model.eval().save_pretrained(folder)
        (folder.parent / LOSS).write_text(f"{loss:.2f}", encoding="utf-8")

    def _inputs(self, passages: Any) -> dict[str, Any]:
        """Return what the model is called with: to say the next byte, hidden bytes, or what follows half a passage."""
        import torch

        ids, after = (part.contiguous() for part in passages.split(LENGTH, dim=1))
        if self.auto == SEQ2SEQ:
            return {"input_ids": ids, "labels": after}
        if self.auto == MASKED:
            hidden = torch.rand(ids.shape) < 0.15
            return {"input_ids": ids.masked_fill(hidden, 3), "labels": ids.masked_fill(~hidden, -100)}
        return {"input_ids": ids, "labels": ids}


def trained(small: Small) -> Trained:
    """Return a model that is wide enough to learn words."""
    scale = 1 if "short_factor" in small.config.get("rope_parameters", {}) else 4  # its factors are of one width
    wide = {key: scale * value for key, value in small.config.items() if key in (*WIDTHS, *STACKS)}
    values = {field.name: getattr(small, field.name) for field in fields(small)}
    begins = {"decoder_start_token_id": small.config.get("decoder_start_token_id", 0)} if small.auto == SEQ2SEQ else {}
    vocabulary = dict.fromkeys(("vocab_size", *(key for key in small.config if key.startswith("vocab_size"))), 256)
    return Trained(**{**values, "config": {**small.config, **wide, **begins, **vocabulary}})


@dataclass(frozen=True)
class Learned(Measured):
    """What came of a model that has read a book.

    Args:
        loss: of the last step of training.
        said: what the file writes.
    """

    loss: str = ""
    said: str = ""


def learn(small: Trained, folder: Path) -> Learned:
    """Train, export and prove a model, and let its file write."""
    import posenc_export

    measured = measure(small, folder)
    said = ""
    if small.auto == CAUSAL and measured.verdict == "certified":
        tokens = posenc_export.load(folder / "bundle").generate(list(START), max_new_tokens=40)
        said = bytes(tokens).decode("ascii", "replace").replace("\n", " ").replace("|", "/")
    return Learned(**asdict(measured), loss=(folder / LOSS).read_text(encoding="utf-8"), said=said)


def row(model: Learned) -> tuple[str, ...]:
    """Return a row of the table."""
    title, kind, _, verdict, error, tokens, generate, *_ = row_of_folder(model)
    why = f": {model.why[:120]}" if model.why else ""
    return title, kind, f"{verdict}{why}", error, tokens, generate, model.loss, f"`{model.said}`" if model.said else ""


def main() -> None:
    """Train, measure, print, and put the table into the page."""
    kinds = {kind: trained(small) for kind, small in MODELS.items() if small.auto in (CAUSAL, MASKED, SEQ2SEQ)}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kinds", nargs="*", metavar="TYPE", help=f"of {', '.join(kinds)} (default: all)")
    parser.add_argument("--write", action="store_true", help="put the table into docs/reference/measured/models.md")
    parser.add_argument("--keep", type=Path, metavar="FILE", help="where findings are kept, and read again")
    options = parser.parse_args()
    if set(options.kinds) - set(kinds) or (options.write and options.kinds):
        parser.error(f"expected some of {', '.join(kinds)}, or --write without any")
    warnings.filterwarnings("ignore")
    found = list(gather([kinds[kind] for kind in options.kinds or kinds], options.keep, Learned, learn))
    certified = sum(model.verdict == "certified" for model in found)
    writers = [model for model in found if model.tokens is not None]
    equal = sum(bool(model.tokens and model.generate) for model in writers)
    libraries = ", ".join(f"{name} {version(name)}" for name in ("transformers", "torch"))
    text = (
        f"Measured on {datetime.date.today().isoformat()} with {libraries}: {certified} of {len(found)} are certified, "
        f"and {equal} of {len(writers)} that write text write the tokens of eager and of `generate`.\n\n"
        f"{table(HEAD, map(row, found))}\n"
    )
    if options.write:
        put_part(PAGE, "trained", text)
    print(text)


if __name__ == "__main__":
    main()
