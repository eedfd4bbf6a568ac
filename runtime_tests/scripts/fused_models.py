"""Which attentions of which models become GroupQueryAttention, and how far the files are apart: run by hand.

python runtime_tests/scripts/fused_models.py                prints a line for each decoder
python runtime_tests/scripts/fused_models.py llama gemma2   for these alone
python runtime_tests/scripts/fused_models.py --keep FILE    goes on with what FILE has, and keeps the rest there
python runtime_tests/scripts/fused_models.py --write        puts the table into docs/reference/measured/models.md

Each model is captured once and written twice; then `posenc export` proves it, with its tokens. It takes two hours.
"""

from __future__ import annotations

import argparse
import datetime
import json
import re
import sys
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from importlib.metadata import version
from pathlib import Path

import onnxruntime

sys.path.insert(0, str(Path(__file__).parents[1]))

from helpers.fused_files import attributes_of, write_pair
from helpers.made_parts import put_part
from helpers.model_folders import MODELS, Small
from posenc_export.common.errors import BadInput, ExportFailed
from posenc_export.common.markdown import table
from posenc_export.write.formats.onnx import read_onnx
from posenc_models import ModelFolder
from scripts.model_folders import measure

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "measured" / "models.md"
COUNTS = re.compile(r"GroupQueryAttention computes (\d+) of (\d+)")
HEAD = (
    *("model", "attentions in one operator", "rotations", "also", "nodes before", "nodes", "largest difference"),
    *("verdict", "tokens"),
)


def measured(small: Small, folder: Path) -> tuple[str, ...] | None:
    """Return the row of a model; None for one that is no decoder without an encoder."""
    small.save(folder / "model")
    loaded = ModelFolder.load(folder / "model")
    if not loaded.task.cache or loaded.task.encoder:
        return None
    try:
        pair = write_pair(folder / "model", folder)
    except (BadInput, ExportFailed) as error:
        why = error.message.removeprefix("--attention-op microsoft: ").removesuffix("; leave it out")
        if isinstance(error, ExportFailed):
            why = "torch.onnx cannot write it, and the older exporter's graph stays as it is"
        return small.title, "none", "", why.rpartition("operators: ")[2], "", "", "", "", ""
    operators = pair.operators()
    (fused, count) = next(match.groups() for note in pair.notes if (match := COUNTS.match(note)))
    apart = max(pair.differences().values())
    before = len(read_onnx(pair.plain).graph.node)
    (folder / "proved").mkdir()
    proved = measure(small, folder / "proved", "--attention-op", "microsoft")
    return (
        small.title,
        f"{fused} of {count}",
        str(operators["RotaryEmbedding"]),
        ", ".join(used(pair.fused)),
        str(before),
        str(sum(operators.values())),
        f"{apart:.1e}",
        proved.verdict if proved.verdict == "certified" else f"{proved.verdict}: {proved.why[:120]}",
        "equal" if proved.tokens and proved.generate else "differ",
    )


def used(path: Path) -> Iterator[str]:
    """Yield what the operators of a file do beside plain attention."""
    nodes: list[Mapping[str, object]] = attributes_of(path, "GroupQueryAttention")
    windows = {node["local_window_size"] for node in nodes if "local_window_size" in node}
    yield from (f"a window of {window}" for window in windows)
    if any(node.get("softcap") for node in nodes):
        yield "a ceiling"
    graph = read_onnx(path).graph
    attentions = [node for node in graph.node if node.op_type == "GroupQueryAttention"]
    if any(len(node.input) > 11 and node.input[11] for node in attentions):
        yield "sinks"
    if any(node.input[10] != "attention_bias" for node in attentions):
        yield "numbers of its mask"
    turned = attributes_of(path, "RotaryEmbedding")
    if any(node.get("interleaved") for node in turned):
        yield "neighbours"
    if any(node.get("rotary_embedding_dim") for node in turned):
        yield "a part of the head"


def main() -> None:
    """Measure, print, and put the table into the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", help="titles of models; all by default")
    parser.add_argument("--keep", type=Path, help="a file with rows that were measured before")
    parser.add_argument("--write", action="store_true", help="put the table into docs/reference/measured/models.md")
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    lines = options.keep.read_text().splitlines() if options.keep and options.keep.exists() else []
    rows: dict[str, tuple[str, ...] | None] = {title: row for line in lines for title, row in [json.loads(line)]}
    for title, small in MODELS.items():
        if title in rows or (options.models and title not in options.models):
            continue
        with tempfile.TemporaryDirectory() as folder:
            rows[title] = measured(small, Path(folder))
        print(rows[title], flush=True)
        if options.keep:
            with options.keep.open("a") as file:
                file.write(json.dumps([title, rows[title]]) + "\n")
    found = [row for row in rows.values() if row is not None]
    whole = sum(row[1] != "none" and len({*row[1].split(" of ")}) == 1 for row in found)
    some = sum(row[1] != "none" for row in found)
    certified = sum(row[-2:] == ("certified", "equal") for row in map(tuple, found))
    text = (
        f"Measured on {datetime.date.today().isoformat()} with transformers {version('transformers')}, torch "
        f"{version('torch')}, onnxruntime {onnxruntime.__version__}: of {len(found)} decoders, {some} have "
        f"GroupQueryAttention, {whole} of them in every layer; {certified} are certified, and write the tokens of "
        f"eager and of `generate`.\n\n{table(HEAD, found)}\n"
    )
    print(text)
    if options.write:
        put_part(PAGE, "fused-models", text)


if __name__ == "__main__":
    main()
