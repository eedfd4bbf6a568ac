"""Models that see in transformers.js: run by hand, not by pytest.

python scene_loaders.py --npm DIR           exports each small model, and prints what came of it
python scene_loaders.py --npm DIR --write   puts the table into docs/how-to/models-that-see.md

DIR is a folder in which `npm install --ignore-scripts @huggingface/transformers` ran. transformers.js takes the bundle
as it is, and must write the tokens of transformers' own `generate`, behind every prompt alone and in a padded batch:
first by itself, then with the lines that the page shows.
"""

import argparse
import datetime
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import posenc_export
from helpers.made_parts import put_part
from helpers.own_generation import own_tokens, pictures_for
from helpers.pages import blocks
from helpers.scene_folders import END, IMAGE, START, TASK, save_scene
from posenc.ports import Array
from posenc_export.bundle.folder import Bundle
from posenc_export.bundle.manifest import Generation
from posenc_export.common.markdown import table
from posenc_export.proof.loaded_model import LoadedModel
from posenc_export.proof.scenes import Picture

PAGE = "docs/how-to/models-that-see.md"
ROOT = Path(__file__).parents[2]
PROGRAM = Path(__file__).parent / "loading" / "scenes_with_transformers_js.mjs"
HEAD = ("model", "`posenc_export.load`", "transformers.js", "transformers.js with these lines")
KINDS = (
    "llava",
    "llava_onevision",
    "gemma3",
    "paligemma",
    "idefics3",
    "smolvlm",
    "mistral3",
    "qwen2_vl",
    "qwen2_5_vl",
    "qwen3_vl",
    "lighton_ocr",
)
"""The types that transformers.js has a class for, and that are exported here."""
COUNT, PAD = 20, 0
LINES = "seeing.mjs"
"""The title of the lines on the page that an application adds."""

Tokens = list[list[int]]


def framed(model: LoadedModel, prompt: Sequence[int], pictures: Sequence[Picture]) -> tuple[int, ...]:
    """Return a recorded prompt as a processor writes it, with the ids that stand before and behind a picture."""
    assert model.scene is not None
    ids: list[int] = []
    rest = list(prompt)
    for picture in pictures:
        at, count = rest.index(IMAGE), model.scene.rows_of(picture)
        ids += [*rest[:at], START, *rest[at : at + count], END]
        rest = rest[at + count :]
    return (*ids, *rest)


def model_and_prompts(bundle: Path) -> tuple[LoadedModel, list[Generation]]:
    """Return a bundle's model, and the prompts of its manifest with what stands around pictures."""
    model, generations = posenc_export.load(bundle), []
    for one in Bundle.open(bundle).manifest.generations:
        pairs = zip(one.prompts, one.pictures, strict=True)
        generations.append(replace(one, prompts=tuple(framed(model, *pair) for pair in pairs)))
    return model, generations


def tensor(array: Array) -> dict[str, Any]:
    """Return an array as JSON has it."""
    return {"dtype": str(array.dtype), "dims": list(array.shape), "data": array.ravel().tolist()}


def compared(written: Sequence[Tokens], expected: Sequence[Tokens], generations: Sequence[Generation]) -> str:
    """Return whether tokens are those expected: behind pictures, behind a text without, and in the batch."""
    found: dict[str, str] = {}
    for rows, own, one in zip(written, expected, generations, strict=True):
        kind = "padded batch" if len(own) > 1 else "behind pictures" if any(one.pictures) else "behind text"
        others = [at for pair in zip(rows, own, strict=True) if (at := _first_other(*pair)) is not None]
        if others or kind not in found:
            found[kind] = f"token {min(others)} is another one" if others else "equal"
    if set(found.values()) == {"equal"}:
        return f"equal ({sum(len(row) for rows in written for row in rows)} tokens)"
    return "; ".join(f"{kind}: {what}" for kind, what in found.items())


def _first_other(row: Sequence[int], own: Sequence[int]) -> int | None:
    return next((at for at, token in enumerate(own) if list(row[at : at + 1]) != [token]), None)


def answers(folder: Path, bundle: Path, npm: Path) -> tuple[str, ...]:
    """Return what came of a bundle of a model's folder: in our own class, in transformers.js, and with more lines."""
    model, generations = model_and_prompts(bundle)
    expected = [own_tokens(folder, model, one, COUNT) for one in generations]
    ours: list[Any] = []
    asked = []
    for one in generations:
        images, prompts = pictures_for(model, one), [list(prompt) for prompt in one.prompts]
        ours.append(model.generate(prompts, COUNT, images=images or None))
        given = {name: tensor(array) for name, array in images.items()}
        asked.append({"prompts": prompts, "images": given})
    question = {"asked": asked, "count": COUNT, "pad": PAD}
    theirs = [of_transformers_js(bundle, question, npm, lines=lines) for lines in (False, True)]
    return tuple(one if isinstance(one, str) else compared(one, expected, generations) for one in (ours, *theirs))


def of_transformers_js(bundle: Path, question: Any, npm: Path, *, lines: bool) -> list[Tokens] | str:
    """Run the program of transformers.js; return its tokens, or with which words it fails."""
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "asked.json"
        path.write_text(json.dumps(question), encoding="utf-8")
        words = ["node", PROGRAM, bundle, path]
        if lines:
            (shown,) = (block.text for block in blocks(PAGE) if block.title == LINES)
            (Path(name) / LINES).write_text(shown, encoding="utf-8")
            words.append(Path(name) / LINES)
        env = {**os.environ, "POSENC_NPM": str(npm)}
        done = subprocess.run([*map(str, words)], capture_output=True, text=True, check=False, env=env, timeout=600)
    if done.returncode:
        said = [line for line in done.stderr.splitlines() if "rror:" in line]
        line = (said or [f"status {done.returncode}"])[-1].rpartition(': "')[2].strip()
        return f"fails: {line[:240]}"
    tokens: list[Tokens] = json.loads(done.stdout.strip().splitlines()[-1])["tokens"]
    return tokens


def row(kind: str, npm: Path, folder: Path) -> tuple[str, ...]:
    """Return the row of a model: what each loader writes."""
    save_scene(kind, folder / "model")
    words = ["export", "--model", folder / "model", "--task", TASK, "-f", "onnx", "--runtime", "ort-cpu"]
    words += ["--proof", "quick", "-q", "-o", folder / "bundle"]
    command = [sys.executable, "-m", "posenc_export", *words]
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, check=False)
    if done.returncode:
        return (f"`{kind}`", f"is not exported: status {done.returncode}", "", "")
    return (f"`{kind}`", *answers(folder / "model", folder / "bundle", npm))


def summary(rows: Iterable[Sequence[str]], npm: Path) -> str:
    """Return the text between the markers of the page."""
    package = npm / "node_modules" / "@huggingface" / "transformers" / "package.json"
    version = json.loads(package.read_text(encoding="utf-8"))["version"]
    return f"Tried on {datetime.date.today().isoformat()} with transformers.js {version}.\n\n{table(HEAD, rows)}\n"


def main() -> None:
    """Export, load, print, and put the table into the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=f"a type of {', '.join(KINDS)} (default: all)")
    parser.add_argument("--npm", type=Path, required=True, help="a folder with transformers.js")
    parser.add_argument("--write", action="store_true", help="put the table into docs/how-to/models-that-see.md")
    options = parser.parse_args()
    npm, rows = options.npm.resolve(), []
    for kind in options.kinds or KINDS:
        with tempfile.TemporaryDirectory() as folder:
            rows.append(row(kind, npm, Path(folder)))
        print(*rows[-1], sep=" | ", flush=True)
    if options.write:
        put_part(ROOT / PAGE, "loaders", summary(rows, npm))


if __name__ == "__main__":
    main()
