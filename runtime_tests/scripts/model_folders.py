"""Folders of transformers' models, each given to `posenc export --model`: run by hand, not by pytest.

python runtime_tests/scripts/model_folders.py                 exports every model, and prints what came of it
python runtime_tests/scripts/model_folders.py llama T5        exports these: a model type, or the title of a refused one
python runtime_tests/scripts/model_folders.py --keep FILE     goes on with what FILE has, and keeps the rest there
python runtime_tests/scripts/model_folders.py --write         puts the tables into docs/reference/measured/models.md

Each command is a process of its own, which ends after 900 seconds. What a decoder writes is compared apart from the
project, too: with the tokens of the untouched model's own `generate`. It takes an hour on two cores.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

sys.path.insert(0, str(Path(__file__).parents[1]))

from helpers.made_parts import put_part
from helpers.model_folders import MODELS, REFUSED, SEQ2SEQ, SPEECH, WRITING, Small
from helpers.state_models import STATES
from helpers.whole_models import writer_of
from posenc_export.common.markdown import table

if TYPE_CHECKING:
    from posenc_export.bundle.manifest import Generation, Manifest

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "measured" / "models.md"
SECONDS = 900
HEAD = ("model", "type", "task", "verdict", "error against float64", "tokens", "`generate`", "seconds", "bytes")


@dataclass(frozen=True)
class Measured:
    """What came of a folder.

    Args:
        title: what its makers call the model.
        kind: its model type.
        task: what it was exported for.
        verdict: certified, disagrees, refused or out of time.
        why: the line that says so, where it is not certified.
        error: the largest error against float64, as a share of the largest number of its output.
        tokens: whether the file writes the tokens that the eager module writes; None where it has no cache.
        generate: whether it writes those that the untouched model's own `generate` does.
        notes: what the report says of positions.
        seconds: how long the command ran.
        size: bytes of the ONNX files.
    """

    title: str
    kind: str
    task: str
    verdict: str
    why: str = ""
    error: float | None = None
    tokens: bool | None = None
    generate: bool | None = None
    notes: tuple[str, ...] = ()
    seconds: float = 0.0
    size: int = 0


class Exported(Protocol):
    """A folder that is exported: what its makers call it, its model's type and class, its task, and what writes it."""

    @property
    def title(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def auto(self) -> str: ...
    @property
    def task(self) -> str: ...
    def save(self, folder: Path) -> None: ...


S = TypeVar("S", bound=Exported)
M = TypeVar("M", bound=Measured)


def command(words: Sequence[str], folder: Path) -> tuple[int | None, str, str]:
    """Run `posenc` in a folder; return its exit status, None where time ran out, and what it printed."""
    process = subprocess.Popen(
        [sys.executable, "-m", "posenc_export", *words],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        out, err = process.communicate(timeout=SECONDS)
    except subprocess.TimeoutExpired:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        return None, *process.communicate()
    return process.returncode, out, err


def measure(small: Exported, folder: Path, *options: str) -> Measured:
    """Export a model with more options, and say what came of it."""
    small.save(folder / "model")
    began = time.monotonic()
    words = ["export", "--model", "model", "--runtime", "ort-cpu", "--json", "-o", "bundle", *options]
    status, out, err = command(words, folder)
    seconds = round(time.monotonic() - began, 1)
    task = small.task if small.title not in REFUSED else ""
    if status is None:
        return Measured(small.title, small.kind, task, "out of time", f"after {SECONDS} seconds", seconds=seconds)
    if status not in (0, 1) or not out:
        lines = [line.removeprefix("Error: ") for line in err.splitlines() if line.strip()]
        verdict = "refused" if status == 2 and len(lines) == 1 else f"failed with status {status}"
        return Measured(small.title, small.kind, task, verdict, " / ".join(lines[-3:]), seconds=seconds)
    report = json.loads(out)
    checks = {(row["subject"], row["check"]): row["status"] for row in report["verdicts"]}
    failed = [f"{row['check']}: {row['detail']}" for row in report["verdicts"] if row["status"] != "pass"]
    shares = [
        one["max_abs"] / one["peak"]
        for row in report["verdicts"]
        for one in row["comparisons"]
        if one["against"] != "eager" and one["peak"] and one["max_abs"] is not None
    ]
    graph = Path(report["bundle"]) if Path(report["bundle"]).is_absolute() else folder / report["bundle"]
    decoder = isinstance(small, Small) and small.auto in WRITING
    return Measured(
        small.title,
        small.kind,
        task,
        "disagrees" if status else "certified",
        "; ".join(failed),
        max(shares, default=None),
        checks.get(("ort-cpu", "generation")) == "pass" if decoder else None,
        same_tokens(small, folder / "model", graph) if isinstance(small, Small) and decoder and not status else None,
        tuple(note for note in report["notes"] if "position" in note or "rotary" in note),
        seconds,
        sum(file.stat().st_size for file in graph.glob("*.onnx")),
    )


def same_tokens(small: Small, model: Path, bundle: Path) -> bool:
    """Return whether a bundle's ONNX file writes what the untouched model's own `generate` writes.

    ONNX Runtime alone runs the file, along the tokens of `generate`: behind each of the prompts, and behind all in one
    padded batch.
    """
    import torch
    import transformers

    from posenc_export.bundle.folder import Bundle
    from posenc_export.bundle.manifest import Generation
    from posenc_export.proof.generation import differences

    untouched = getattr(transformers, small.auto).from_pretrained(model, dtype=torch.float32).eval()
    untouched.generation_config.eos_token_id = None
    opened = Bundle.open(bundle)
    manifest = opened.manifest
    if small.auto in (SEQ2SEQ, SPEECH):
        (encoder,) = (part.manifest for part in opened.parts())
        return all(
            _as_generated(small, untouched, encoder, one) and not any(differences(writer_of(bundle), one)[0])
            for one in manifest.generations
        )
    prompts = [one.prompts[0] for one in manifest.generations[:-1]]
    count = len(manifest.generations[0].tokens[0])

    def written(prompt: Sequence[int], count: int) -> tuple[int, ...]:
        ids = torch.tensor([prompt])
        mask = torch.ones_like(ids)
        tokens = untouched.generate(ids, max_new_tokens=count, do_sample=False, attention_mask=mask)
        return tuple(tokens[0, len(prompt) :].tolist())

    edge = getattr(untouched.config, "original_max_position_embeddings", None)
    rows = [written(prompt, count) for prompt in prompts]
    if edge is not None:
        # beyond the edge, `generate` computes its cache anew: a text that crosses it is continued from there, whole
        before = edge - max(map(len, prompts))
        beyond = [(*prompt, *row)[: edge + 1] for prompt, row in zip(prompts, rows, strict=True)]
        texts = [(prompts, [row[:before] for row in rows])]
        texts.append((beyond, [written(text, count + 10 - len(text)) for text in beyond]))
    else:
        texts = [(prompts, rows)]
    generations = [
        Generation(tuple(map(tuple, some)), tuple(map(tuple, tokens)))
        for prompts, rows in texts
        for some, tokens in ((prompts[:1], rows[:1]), (prompts[1:], rows[1:]), (prompts, rows))
    ]
    several = all(len(set(row)) > 3 for row in rows)  # a model that says one thing only shows nothing
    return several and not any(differences(writer_of(bundle), one)[0] for one in generations)


def _as_generated(small: Small, untouched: Any, encoder: Manifest, one: Generation) -> bool:
    """Return whether a model with an encoder writes tokens by its own `generate`, many different ones among them."""
    import numpy as np
    import torch
    from transformers import GenerationConfig, GenerationMixin

    from posenc_export.proof.callees import numbers_from
    from posenc_export.proof.generation import padded

    # what another config leaves out, `generate` takes from the model's
    untouched.generation_config = GenerationConfig(
        max_new_tokens=len(one.tokens[0]), do_sample=False, pad_token_id=0, decoder_start_token_id=one.begins[0]
    )
    ids, mask = (torch.from_numpy(array) for array in padded(one.prompts, left=False))
    read: dict[str, Any] = {"inputs": ids, "attention_mask": mask}
    if small.auto == SPEECH:
        read = {"inputs": torch.from_numpy(numbers_from(encoder.inputs[0], np.array(one.prompts)[:, 0]))}
    # Whisper's own would cut its text where it says a time
    tokens = GenerationMixin.generate(untouched, **read)
    written = tokens[:, len(one.begins) :].tolist()
    return written == [list(row) for row in one.tokens] and all(len(set(row)) > 3 for row in written)


def summary(found: Sequence[Measured], refused: Sequence[Measured]) -> str:
    """Return the text between the markers of the page."""
    packages = ("transformers", "torch")
    libraries = (
        ", ".join(f"{name} {version(name)}" for name in packages) + f", onnxruntime {version('onnxruntime-gpu')}"
    )
    decoders = [model for model in found if model.tokens is not None]
    certified = sum(model.verdict == "certified" for model in found)
    equal = sum(bool(model.tokens and model.generate) for model in decoders)
    refusals = table(("folder", "what the command says"), map(refusal, refused))
    lines = [f"* {model.title}: {model.verdict}: {model.why}" for model in found if model.verdict != "certified"]
    why = "\n".join(lines) + "\n\n" if lines else ""
    return (
        f"Measured on {datetime.date.today().isoformat()} with {libraries}, on two cores that did other work, too: "
        f"{certified} of {len(found)} are certified, and {equal} of {len(decoders)} decoders write the tokens of "
        "eager and of `generate`.\n\n"
        f"{table(HEAD, map(row, found))}\n\n{why}"
        f"Refused with exit status 2, as they should be:\n\n{refusals}\n"
    )


def row(model: Measured) -> tuple[str, ...]:
    """Return a row of the table."""
    words = {None: "", True: "equal", False: "differ"}
    error = "" if model.error is None else f"{model.error:.1e}"
    return (
        model.title,
        model.kind,
        model.task,
        model.verdict,
        error,
        words[model.tokens],
        words[model.generate],
        f"{model.seconds:.0f}",
        f"{model.size:,}" if model.size else "",
    )


def refusal(model: Measured) -> tuple[str, ...]:
    """Return a row of the table of folders that are refused."""
    return model.title, model.why if model.verdict == "refused" else f"{model.verdict}: {model.why}"


def gather(wanted: Sequence[S], kept: Path | None, record: type[M], measured: Callable[[S, Path], M]) -> Iterator[M]:
    """Measure what is not kept yet, and print what came of it.

    Args:
        wanted: The models.
        kept: A file of what was found before, a line of JSON each; what is found goes there, too.
        record: What such a line becomes.
        measured: Says what came of a model, in a folder.
    """
    lines = kept.read_text(encoding="utf-8").splitlines() if kept is not None and kept.exists() else []
    before = {one["title"]: record(**one) for one in map(json.loads, lines)}
    for small in wanted:
        if small.title in before:
            yield before[small.title]
            continue
        with tempfile.TemporaryDirectory() as folder:
            found = measured(small, Path(folder))
        print(json.dumps(asdict(found)), flush=True)
        if kept is not None:
            with kept.open("a", encoding="utf-8") as file:
                file.write(json.dumps(asdict(found)) + "\n")
        yield found


def arguments() -> argparse.Namespace:
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help="a model type, or a refused one's title (default: all)"
    )
    parser.add_argument("--write", action="store_true", help="put the tables into docs/reference/measured/models.md")
    parser.add_argument("--keep", type=Path, metavar="FILE", help="where findings are kept, and read again")
    options = parser.parse_args()
    unknown = set(options.names) - set(MODELS) - set(STATES) - set(REFUSED)
    if unknown:
        parser.error(f"no such model: {', '.join(sorted(unknown))}")
    if options.write and options.names:
        parser.error("--write exports every model: give no NAME with it")
    return options


def main() -> None:
    """Measure, print, and put the tables into the page."""
    options = arguments()
    warnings.filterwarnings("ignore")
    wanted = {**MODELS, **STATES, **REFUSED}
    named = [wanted[name] for name in options.names or wanted]
    found = list(gather(named, options.keep, Measured, measure))
    text = summary(
        [model for model in found if model.title not in REFUSED], [model for model in found if model.title in REFUSED]
    )
    if options.write:
        put_part(PAGE, "measured", text)
    print(text)


if __name__ == "__main__":
    main()
