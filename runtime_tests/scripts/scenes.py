"""Which models that see or hear are certified, and write the tokens of their own `generate`: run by hand.

python runtime_tests/scripts/scenes.py                prints a line for each kind of model
python runtime_tests/scripts/scenes.py gemma3 llava   for these alone
python runtime_tests/scripts/scenes.py --write        puts the table into docs/reference/measured/models.md

Each is made small and with random weights, exported with a quick proof, loaded, and asked to write behind its pictures
or sounds. It takes half an hour.
"""

from __future__ import annotations

import argparse
import datetime
import re
import sys
import tempfile
import warnings
from importlib.metadata import version
from pathlib import Path

import onnxruntime

sys.path.insert(0, str(Path(__file__).parents[1]))

import posenc_export
from helpers.made_parts import put_part
from helpers.own_generation import own_tokens, pictures_for
from helpers.scene_folders import SCENES, TASK, TEXT_ALONE, save_scene
from helpers.sound_folders import HEARING, HEARS
from posenc_export.bundle.folder import Bundle
from posenc_export.bundle.manifest import Generation
from posenc_export.common.errors import BadInput, ExportFailed
from posenc_export.common.markdown import table
from posenc_export.proof.loaded_model import LoadedModel
from posenc_models import ModelFolder

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "measured" / "models.md"
HEAD = ("model type", "what goes into its tower", "rows of a picture or sound", "verdict", "tokens")
OTHERS = (
    *("llava/pixtral", "lighton_ocr", "idefics2", "llava_next_video", "vipllava", "aya_vision", "cohere2_vision"),
    *("got_ocr2", "qianfan_ocr", "exaone4_5", "cosmos3_edge", "minimax_m3_vl"),
)
"""Kinds of models beside those that tests try."""
COUNT = 20
"""Tokens that are compared with those of `generate`, behind each prompt and in a batch of all."""


def measured(name: str, folder: Path) -> tuple[str, ...]:
    """Return the row of a kind of model."""
    if name in HEARING:
        HEARING[name].save(folder / "model")
    else:
        save_scene(name, folder / "model")
    try:
        loaded = ModelFolder.load(folder / "model", HEARS if name in HEARING else TASK)
        result = posenc_export.export(
            loaded, to=folder / "bundle", formats=("onnx",), runtimes=("ort-cpu",), proof="quick"
        )
    except (BadInput, ExportFailed, ValueError) as error:
        words = getattr(error, "message", str(error)).partition(": ")[2] or str(error)
        return name, "", "", f"refused: {words[:160]}", ""
    if not result.passed:
        return name, "", "", f"FAILED: {str(result)[:200]}", ""
    scene = posenc_export.load(folder / "bundle")
    assert scene.scene is not None
    inputs = ", ".join(re.sub(r": \w+", " ", str(port)) for port in scene.scene.tower.inputs)
    generations = Bundle.open(folder / "bundle").manifest.generations
    pictures = [picture for one in generations[:-1] for seen in one.pictures for picture in seen]
    rows = ", ".join(str(scene.scene.rows_of(picture)) for picture in pictures)
    equal = all(
        written(scene, one, hears=name in HEARING) == own_tokens(folder / "model", scene, one, COUNT)
        for one in generations
    )
    return name, inputs, rows, "certified", "equal" if equal else "differ"


def written(scene: LoadedModel, one: Generation, *, hears: bool) -> list[list[int]]:
    """Return what a bundle writes behind recorded prompts."""
    prompts, given = [list(prompt) for prompt in one.prompts], pictures_for(scene, one) or None
    return scene.generate(prompts, COUNT, sounds=given) if hears else scene.generate(prompts, COUNT, images=given)


def main() -> None:
    """Measure, print, and put the table into the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kinds", nargs="*", help="kinds of models; all by default")
    parser.add_argument("--write", action="store_true", help="put the table into docs/reference/measured/models.md")
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    rows = []
    for name in options.kinds or (*SCENES, *OTHERS, *HEARING, *TEXT_ALONE):
        with tempfile.TemporaryDirectory() as folder:
            try:
                rows.append(measured(name, Path(folder)))
            except Exception as error:  # one that fails is a row, too
                rows.append((name, "", "", f"error: {type(error).__name__}: {str(error)[:160]}", ""))
        print(rows[-1], flush=True)
    right = sum(row[3:] == ("certified", "equal") for row in rows)
    text = (
        f"Measured on {datetime.date.today().isoformat()} with transformers {version('transformers')}, torch "
        f"{version('torch')}, onnxruntime {onnxruntime.__version__}: of {len(rows)} kinds of models, {right} are "
        f"certified with their pictures or sounds, and write the tokens of `generate`.\n\n{table(HEAD, rows)}\n"
    )
    print(text)
    if options.write:
        put_part(PAGE, "scenes", text)


if __name__ == "__main__":
    main()
