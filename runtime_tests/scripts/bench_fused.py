"""Decoding with GroupQueryAttention, ours beside onnxruntime-genai's own file and loop: run by hand, not by pytest.

python bench_fused.py --genai PYTHON           prints tokens a second, and the ratios
python bench_fused.py --genai PYTHON --write   puts the table into docs/reference/measured/models.md

`loading/peer_files.py` says what this environment has. One thread, by turns, medians of one run; all files have the
same weights. It takes half an hour.
"""

import argparse
import datetime
import json
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from helpers.made_parts import put_part
from posenc_export.common.markdown import table
from scripts.bench_decode import PAGE, STEPS_OF_GENAI, Size, built, by_turns, program
from scripts.loading.peer_files import Others, genai, ours
from scripts.loading.small_llama import save

SIZES = (Size(2, 64, 4), Size(8, 512, 8))
PROMPTS, STEPS, POSITIONS = (64, 1024), 64, 8192
FUSED = ("--attention-op", "microsoft")
INT4 = ("--quantize", "int4", "--accuracy-level", "4")
HEAD = ("model", "weights", "after", "class, plain", "class, fused", "genai, its own file", "genai, our fused file")
RATIOS = ("fused / genai", "genai: ours / its own")


def measured(size: Size, others: Others, folder: Path) -> list[list[str]]:
    """Return the rows of a model: float32 and int4, behind a short prompt and a long one."""
    heads = 2 if size.heads == 14 else size.heads // 2
    model = folder / "model"
    save(model, layers=size.layers, size=size.size, heads=size.heads, kv_heads=heads, positions=POSITIONS)
    rows: list[list[str]] = []
    for weights, more, precision in (("float32", (), "fp32"), ("int4", INT4, "int4")):
        files = {name: folder / f"{name}-{weights}" for name in ("plain", "fused", "genai")}
        whys = [
            ours(others, model, files["plain"], *more),
            ours(others, model, files["fused"], *more, *FUSED),
            genai(others, model, files["genai"], precision),
        ]
        if any(whys):
            raise RuntimeError("; ".join(filter(None, whys)))
        runners: dict[str, Path] = {}
        for name in ("plain", "fused"):
            (folder / f"steps-{name}-{weights}").mkdir()
            runners[name] = built(files[name], folder / f"steps-{name}-{weights}")
        for prompt in PROMPTS:
            length = {"prompt": prompt, "steps": STEPS}
            took = by_turns(
                {
                    **{name: program(runner, files[name] / "model.onnx", **length) for name, runner in runners.items()},
                    "genai": program(others.genai, STEPS_OF_GENAI, files["genai"], **length),
                    "genai on ours": program(others.genai, STEPS_OF_GENAI, files["fused"], **length),
                }
            )
            ratios = took["genai"] / took["fused"], took["genai"] / took["genai on ours"]
            seconds = (f"{1 / each:,.0f}" for each in took.values())
            rows.append([str(size), weights, f"{prompt:,}", *seconds, *(f"{ratio:.2f}" for ratio in ratios)])
            print(json.dumps(rows[-1]), flush=True)
    return rows


def main() -> None:
    """Measure, print, and put the table into the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--genai", type=Path, required=True, help="a Python with onnxruntime-genai, transformers 5")
    parser.add_argument("--write", action="store_true", help="put the table into docs/reference/measured/models.md")
    options = parser.parse_args()
    others = Others(options.genai, options.genai)
    rows: list[list[str]] = []
    for size in SIZES:
        with tempfile.TemporaryDirectory() as folder:
            rows += measured(size, others, Path(folder))
    text = (
        f"Measured on {datetime.date.today().isoformat()} with {others.versions('onnxruntime')}, one thread, on cores "
        f"that did other work, too; the class runs onnxruntime {version('onnxruntime-gpu')}. Tokens a second, {STEPS} "
        f"steps:\n\n{table((*HEAD, *RATIOS), rows)}\n"
    )
    print(text)
    if options.write:
        put_part(PAGE, "fused", text)


if __name__ == "__main__":
    main()
