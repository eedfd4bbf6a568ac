"""Files that other exporters write of a model's folder, each by its own command: for tables that set ours beside them.

transformers' own exporter runs in the environment of the project. The others need two more: optimum-onnx takes
transformers 4, and the builder of onnxruntime-genai takes 5.

    pip install torch==2.13.0 optimum-onnx==0.1.0 optimum==2.1.0 transformers==4.57.6 onnxruntime==1.31.1 \\
        onnxruntime-genai==0.18.0 diffusers==0.35.2 mobius-onnx==0.1.0
    pip install torch==2.13.0 onnxruntime-genai==0.18.0 onnxruntime==1.31.1 onnx-ir==1.1.0 transformers==5.23.0
"""

import argparse
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

THEIRS = """
import json, sys, torch, warnings
warnings.filterwarnings("ignore")
from transformers import AutoModelForCausalLM, DynamicCache
from transformers.exporters import OnnxConfig, OnnxExporter
folder, to = sys.argv[1:]
model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
config = model.config
heads, width = config.num_key_value_heads, config.hidden_size // config.num_attention_heads
cache = DynamicCache()
with torch.no_grad():
    for layer in range(config.num_hidden_layers):
        cache.update(torch.randn(2, heads, 5, width), torch.randn(2, heads, 5, width), layer)
inputs = {
    "input_ids": torch.randint(0, config.vocab_size, (2, 3)),
    "attention_mask": torch.ones(2, 8, dtype=torch.int64),
    "position_ids": torch.arange(5, 8).expand(2, 3).contiguous(),
    "past_key_values": cache,
    "use_cache": True,
}
OnnxExporter().export(model, inputs, config=OnnxConfig(dynamic=True)).save_pretrained(to)
"""
CLEAN = ("PYTHONPATH",)


@dataclass(frozen=True)
class Others:
    """Where other exporters are.

    Args:
        python: a Python with optimum-onnx and mobius-onnx.
        genai: a Python with onnxruntime-genai and transformers 5.
    """

    python: Path
    genai: Path

    def versions(self, *names: str) -> str:
        """Return packages of the first environment, and onnxruntime-genai, with their versions."""
        of_python = (
            f"from importlib.metadata import version; print(', '.join(f'{{n}} {{version(n)}}' for n in {names!r}))"
        )
        done = subprocess.run([self.python, "-c", of_python], capture_output=True, text=True, check=True)
        ask = "from importlib.metadata import version; print(version('onnxruntime-genai'))"
        genai = subprocess.run([self.genai, "-c", ask], capture_output=True, text=True, check=True)
        return f"{done.stdout.strip()}, onnxruntime-genai {genai.stdout.strip()}"


def add_pythons(parser: argparse.ArgumentParser) -> None:
    """Add the options that say where other exporters are."""
    parser.add_argument("--python", type=Path, required=True, help="a Python with optimum-onnx and mobius-onnx")
    parser.add_argument("--genai", type=Path, required=True, help="a Python with onnxruntime-genai, transformers 5")


def run(command: Sequence[object]) -> str:
    """Run a command apart from this project; return why it failed, or nothing."""
    env = {name: text for name, text in os.environ.items() if name not in CLEAN}
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, check=False, env=env)
    lines = [line for line in done.stderr.splitlines() if line.strip()]
    return "" if done.returncode == 0 else (lines or [f"status {done.returncode}"])[-1][:200]


def ours(others: Others, model: Path, to: Path, *more: str) -> str:
    command = [sys.executable, "-m", "posenc_export", "export", "--model", model, "--cpp", "--namespace", "written"]
    done = subprocess.run(
        [*map(str, command), *more, "--runtime-config", "genai", "--no-validate", "-q", "-o", str(to)],
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stderr.strip()[-200:] if done.returncode else ""


def optimum(others: Others, model: Path, to: Path) -> str:
    task = "text-generation-with-past"
    words = ["export", "onnx", "--model", model, "--task", task, "--no-post-process", to]
    return run([others.python.parent / "optimum-cli", *words])


def exporters(others: Others, model: Path, to: Path) -> str:
    return run([sys.executable, "-c", THEIRS, model, to])


def genai(others: Others, model: Path, to: Path, precision: str = "fp32") -> str:
    builder = [others.genai, "-m", "onnxruntime_genai.models.builder"]
    return run([*builder, "-i", model, "-o", to, "-p", precision, "-e", "cpu", "-c", to / "cache"])


def mobius(others: Others, model: Path, to: Path) -> str:
    return run([others.python, "-m", "mobius", "build", "--model", model, to])


PEERS: Mapping[str, Callable[[Others, Path, Path], str]] = {
    "posenc": ours,
    "optimum-onnx": optimum,
    "transformers.exporters": exporters,
    "onnxruntime-genai's builder": genai,
    "mobius": mobius,
}


def file_in(folder: Path) -> Path:
    """Return the ONNX file of an export's folder."""
    return next(iter(sorted(folder.rglob("model.onnx")) or sorted(folder.rglob("*.onnx"))))
