"""Steps of decoding with int4 weights at accuracy levels 1 and 4, beside float32: run by hand, not by pytest.

python runtime_tests/scripts/bench_levels.py           prints tokens a second of each file, and what it costs
python runtime_tests/scripts/bench_levels.py --write   puts the table into docs/reference/measured/models.md

One thread, by turns, CPU time; the two files of int4 have the same weights. It takes some minutes.
"""

import datetime
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path

import numpy as np
import onnx
import onnxruntime

sys.path.insert(0, str(Path(__file__).parents[1]))

from helpers.made_parts import put_part
from posenc.ports import Array
from posenc_export.common.markdown import table
from posenc_export.write.formats.onnx.quantized import compute_in
from scripts.loading.small_llama import save

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "measured" / "models.md"
PASTS, STEPS, ROUNDS, PREFILL = (64, 1024), 20, 9, 256
FLOAT32, LEVEL_1, LEVEL_4 = "float32", "int4, level 1", "int4, level 4"


class File:
    """A decoder's file in ONNX Runtime, on one thread."""

    def __init__(self, path: Path) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        self.session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])

    def call(self, tokens: Sequence[int], past: int) -> Array:
        """Return the logits of the last token behind a cache of zeros."""
        sizes = (1, 0, past, 0)
        feeds: dict[str, Array] = {
            item.name: np.zeros([s if isinstance(s, int) else sizes[i] for i, s in enumerate(item.shape)], np.float32)
            for item in self.session.get_inputs()
            if item.name.startswith("past")
        }
        feeds["input_ids"] = np.array([tokens])
        feeds["attention_mask"] = np.ones((1, past + len(tokens)), np.int64)
        feeds["position_ids"] = np.arange(past, past + len(tokens))[None]
        logits: Array = self.session.run(["logits"], feeds)[0][0, -1]
        return logits


def export(folder: Path, to: Path, *words: str) -> Path:
    """Export a model, and return its ONNX file."""
    command = [sys.executable, "-m", "posenc_export", "export", "--model", str(folder), "--no-validate", "-q"]
    subprocess.run([*command, *words, "-o", str(to)], check=True)
    return to / "model.onnx"


def seconds(call: Callable[[], object], times: int) -> float:
    """Return the seconds of CPU that a call takes."""
    began = time.process_time()
    for _ in range(times):
        call()
    return (time.process_time() - began) / times


def measured(folder: Path) -> list[list[str]]:
    """Return the rows of the table."""
    save(folder / "model", layers=8, size=512, heads=8, kv_heads=4, positions=2048)
    paths = {
        FLOAT32: export(folder / "model", folder / "float32"),
        LEVEL_1: export(folder / "model", folder / "level-1", "--quantize", "int4"),
    }
    shutil.copytree(folder / "level-1", folder / "level-4")
    paths[LEVEL_4] = folder / "level-4" / "model.onnx"
    model = onnx.load(paths[LEVEL_4])
    compute_in(model, 4)
    onnx.save(model, paths[LEVEL_4])
    files = {name: File(path) for name, path in paths.items()}
    prompt = np.random.default_rng(0).integers(0, 200, PREFILL).tolist()
    logits = {name: file.call(prompt, 0) for name, file in files.items()}
    took: dict[tuple[str, int], list[float]] = {}
    for _ in range(ROUNDS):
        for name, file in files.items():
            for past in PASTS:
                took.setdefault((name, past), []).append(seconds(lambda: file.call([5], past), STEPS))  # noqa: B023
            took.setdefault((name, 0), []).append(seconds(lambda: file.call(prompt, 0), 1))  # noqa: B023
    rows = []
    for name in files:
        off = np.abs(logits[name] - logits[FLOAT32]).max() / np.abs(logits[FLOAT32]).max()
        speeds = [f"{1 / float(np.median(took[name, past])):,.0f}" for past in PASTS]
        rows.append([name, *speeds, f"{1e3 * float(np.median(took[name, 0])):,.0f}", f"{off:.2e}" if off else "0"])
    return rows


def main() -> None:
    """Measure, print, and put the table into the page."""
    with tempfile.TemporaryDirectory() as folder:
        rows = measured(Path(folder))
    columns = ("file", *(f"tokens/s after {past:,}" for past in PASTS), f"prompt of {PREFILL}, ms", "off float32")
    today, runtime = datetime.date.today().isoformat(), version("onnxruntime-gpu")
    text = (
        f"Measured on {today} with onnxruntime {runtime}: 8 layers of 512 with random weights, one thread, CPU time, "
        "by turns, on cores that did other work, too. The last column is the largest difference of a logit, as a "
        f"share of the largest one.\n\n{table(columns, rows)}\n"
    )
    print(text)
    if "--write" in sys.argv:
        put_part(PAGE, "levels", text)


if __name__ == "__main__":
    main()
