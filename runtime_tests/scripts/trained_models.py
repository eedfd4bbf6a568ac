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
import json
import sys
import tempfile
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from importlib.metadata import version
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from helpers.made_parts import put_part
from helpers.model_folders import CAUSAL, MASKED, MODELS, SEQ2SEQ, Small
from posenc_export.common.markdown import table
from scripts.model_folders import PAGE, Measured, measure

TEXT = Path(__file__).parents[1] / "data" / "alice.txt"
STEPS, BATCH, LENGTH = 600, 8, 64
START = b"Alice was "
WIDTHS = ("hidden_size", "intermediate_size", "moe_intermediate_size", "d_model", "d_ff", "n_embd")
STACKS = ("encoder_ffn_dim", "decoder_ffn_dim")
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
        text = torch.frombuffer(bytearray(TEXT.read_bytes()), dtype=torch.uint8).long()
        config = transformers.AutoConfig.for_model(self.kind, **self.config)
        model = getattr(transformers, self.auto).from_config(config).train()
        optimizer = torch.optim.AdamW(model.parameters(), 3e-3)
        for _ in range(STEPS):
            starts = torch.randint(len(text) - 2 * LENGTH, (BATCH,)).tolist()
            ids, after = (torch.stack([text[at + by : at + by + LENGTH] for at in starts]) for by in (0, LENGTH))
            loss = model(**self._read(ids, after)).loss
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
        model.eval().save_pretrained(folder)
        (folder.parent / "loss").write_text(f"{loss.item():.2f}", encoding="utf-8")

    def _read(self, ids: Any, after: Any) -> dict[str, Any]:
        """Return what a step of training gives the model: the next byte, hidden bytes, or what follows a passage."""
        import torch

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
    return Trained(**{**values, "config": {**small.config, **wide, **begins, "vocab_size": 256}})


@dataclass(frozen=True)
class Learned:
    """What came of a model.

    Args:
        measured: what came of its file.
        loss: of the last step of training.
        said: what the file writes.
    """

    measured: Measured
    loss: str
    said: str


def learn(small: Trained, folder: Path) -> Learned:
    """Train, export and prove a model, and let its file write."""
    import posenc_export

    measured = measure(small, folder)
    said = ""
    if small.auto == CAUSAL and measured.verdict == "certified":
        tokens = posenc_export.load(folder / "bundle").generate(list(START), max_new_tokens=40)
        said = bytes(tokens).decode("ascii", "replace").replace("\n", " ").replace("|", "/")
    return Learned(measured, (folder / "loss").read_text(encoding="utf-8"), said)


def row(one: Learned) -> tuple[str, ...]:
    """Return a row of the table."""
    words = {None: "", True: "equal", False: "differ"}
    model = one.measured
    error = "" if model.error is None else f"{model.error:.1e}"
    verdict = model.verdict if model.verdict == "certified" else f"{model.verdict}: {model.why[:120]}"
    said = f"`{one.said}`" if one.said else ""
    return model.title, model.kind, verdict, error, words[model.tokens], words[model.generate], one.loss, said


def gather(wanted: Sequence[Trained], kept: Path | None) -> Iterator[Learned]:
    """Measure what is not kept yet, and print what came of it."""
    lines = kept.read_text(encoding="utf-8").splitlines() if kept is not None and kept.exists() else []
    before: Mapping[str, Any] = {one["measured"]["title"]: one for one in map(json.loads, lines)}
    for small in wanted:
        if small.title in before:
            one = before[small.title]
            yield Learned(Measured(**one["measured"]), one["loss"], one["said"])
            continue
        with tempfile.TemporaryDirectory() as folder:
            found = learn(small, Path(folder))
        print(json.dumps(asdict(found)), flush=True)
        if kept is not None:
            with kept.open("a", encoding="utf-8") as file:
                file.write(json.dumps(asdict(found)) + "\n")
        yield found


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
    found = list(gather([kinds[kind] for kind in options.kinds or kinds], options.keep))
    certified = sum(one.measured.verdict == "certified" for one in found)
    writers = [one.measured for one in found if one.measured.tokens is not None]
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
