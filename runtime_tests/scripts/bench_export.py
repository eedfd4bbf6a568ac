"""Seconds and memory of writing a model of half a billion parameters, beside others: run by hand, not by pytest.

python bench_export.py --python PYTHON --genai PYTHON           writes the model with each, and prints what it took
python bench_export.py --python PYTHON --genai PYTHON --write   puts the table into docs/reference/measured/models.md

`loading/peer_files.py` says what these environments have. The model has the sizes of Qwen2 0.5B, and weights at random.
Each command runs once, by turns, in a process of its own; its memory is the peak of the resident pages of the largest
process that it starts.
"""

import argparse
import datetime
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from helpers.made_parts import put_part
from posenc_export.common.markdown import table
from scripts.loading.peer_files import CLEAN, THEIRS, Others, add_pythons

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "measured" / "models.md"
GB = 10**9
THREADS = "2"
BARE, PROVED = "posenc, `--no-validate`", "posenc, `--proof quick`"
HEAD = ("written by", "seconds", "of the fastest", "memory, GB", "of the weights", "file, GB")
MODEL = """
import sys, torch
from transformers import Qwen2Config, Qwen2ForCausalLM
torch.manual_seed(0)
config = Qwen2Config(hidden_size=896, num_hidden_layers=24, num_attention_heads=14, num_key_value_heads=2,
    vocab_size=151936, intermediate_size=4864, tie_word_embeddings=True, max_position_embeddings=32768)
with torch.device("meta"):
    model = Qwen2ForCausalLM(config)
model = model.to_empty(device="cpu")
for parameter in model.parameters():
    torch.nn.init.normal_(parameter, std=0.02)
model.model.rotary_emb = type(model.model.rotary_emb)(config)
model.tie_weights()
model.save_pretrained(sys.argv[1])
"""
OPTIMUM = """
import sys
from optimum.exporters.onnx import main_export
folder, to, *compare = sys.argv[1:]
main_export(folder, to, task="text-generation-with-past", no_post_process=True, do_validation=bool(compare))
"""
MEASURE = """
import json, resource, subprocess, sys, time
began = time.monotonic()
done = subprocess.run(sys.argv[1:], capture_output=True, text=True)
said = (done.stderr.strip().splitlines() or [""])[-1]
peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
print(json.dumps([done.returncode, time.monotonic() - began, peak * 1024, said]))
"""


@dataclass(frozen=True)
class Took:
    """What a command took.

    Args:
        status: its exit status.
        seconds: how long it ran.
        memory: its peak, in bytes.
        said: the last line of its errors.
        size: bytes that it wrote.
    """

    status: int
    seconds: float
    memory: int
    said: str
    size: int


def take(command: Sequence[object], to: Path, ours: bool) -> Took:
    """Run a command, and delete what it wrote."""
    env = {name: text for name, text in os.environ.items() if ours or name not in CLEAN}
    env["OMP_NUM_THREADS"] = THREADS
    words = [sys.executable, "-c", MEASURE, *map(str, command)]
    done = subprocess.run(words, capture_output=True, text=True, check=True, env=env)
    size = sum(file.stat().st_size for file in to.rglob("*") if file.is_file())
    shutil.rmtree(to, ignore_errors=True)
    status, seconds, memory, said = json.loads(done.stdout)
    return Took(status, seconds, memory, said, size)


def commands(others: Others, model: Path, to: Path) -> Mapping[str, tuple[Sequence[object], bool]]:
    """Return the commands, by what the table calls them, and whether they run in this project."""
    export = [sys.executable, "-m", "posenc_export", "export", "--model", model, "-q", "-o", to]
    quick = ["--proof", "quick", "--runtime", "ort-cpu"]
    return {
        BARE: ([*export, "--no-validate"], True),
        "optimum-onnx, without its comparison": ([others.python, "-c", OPTIMUM, model, to], False),
        "transformers.exporters": ([sys.executable, "-c", THEIRS, model, to], False),
        PROVED: ([*export, *quick], True),
        "optimum-onnx, with its comparison": ([others.python, "-c", OPTIMUM, model, to, "compare"], False),
        "posenc, `--quantize int4`, `--proof quick`": ([*export, *quick, "--quantize", "int4"], True),
    }


def row(name: str, took: Took, least: Mapping[str, float], weights: int) -> tuple[str, ...]:
    """Return a row of the table: what failed has its reason alone."""
    if took.status:
        return name, f"status {took.status}: {took.said[:120]}", "", "", "", ""
    return (
        name,
        f"{took.seconds:.0f}",
        f"{took.seconds / least['seconds']:.1f}",
        f"{took.memory / GB:.1f}",
        f"{took.memory / weights:.1f}",
        f"{took.size / GB:.2f}",
    )


def main() -> None:
    """Measure, print, and put the table into the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_pythons(parser)
    parser.add_argument("--only", action="append", metavar="TEXT", help="rows whose name has this text")
    parser.add_argument("--write", action="store_true", help="put the table into docs/reference/measured/models.md")
    options = parser.parse_args()
    if options.write and options.only:
        parser.error("--write measures every row: give no --only with it")
    others = Others(options.python, options.genai)
    found: dict[str, Took] = {}
    with tempfile.TemporaryDirectory() as place:
        model, to = Path(place) / "model", Path(place) / "written"
        subprocess.run([sys.executable, "-c", MODEL, str(model)], check=True, capture_output=True)
        weights = (model / "model.safetensors").stat().st_size
        for name, (command, ours) in commands(others, model, to).items():
            if not options.only or any(text in name for text in options.only):
                found[name] = take(command, to, ours)
                print(name, found[name], flush=True)
    least = {"seconds": min(took.seconds for name, took in found.items() if took.status == 0)}
    rows = [row(name, took, least, weights) for name, took in found.items()]
    versions = f"{others.versions('optimum-onnx')}, transformers {version('transformers')}, torch {version('torch')}"
    text = (
        f"Measured on {datetime.date.today().isoformat()} with {versions}, {THREADS} threads, on cores that did other "
        f"work, too: {weights / GB:.2f} GB of weights.\n\n{table(HEAD, rows)}\n"
    )
    print(text)
    if options.write:
        put_part(PAGE, "export", text)


if __name__ == "__main__":
    main()
