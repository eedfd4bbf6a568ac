"""Bundles with their C++ folder, and programs that use them."""

import os
import shlex
import subprocess
from pathlib import Path

from click.testing import CliRunner

from posenc_export.cli import main

VARIETY = {
    "offset": "sinusoidal --dynamic --positions offset -p d_model=8",
    "half": "rope --dynamic --dtype fp16 -p head_dim=16",
    "bfloat": "learned --positions explicit --dtype bf16 -p d_model=8",
    "wide": "rope_2d --dtype fp64 -p head_dim=16",
    "whole": "sinusoidal -p output=table -p d_model=8",
    "bias": "t5_bias --dynamic -p heads=2",
    "scores": "alibi --dynamic -p heads=2",
    "text": "posenc_models.networks.embedding:learned -p d_model=8 -p context_length=70 "
    "-i 'ids: int64[batch, seq] < 16'",
    "masked": "helpers.own_encodings:Garbage -i 'x: float32[batch, seq, 8]' -i 'mask: int64[batch, seq] mask'",
}
"""Bundles of each dtype and each way to give positions, one of no input, one of sizes alone, one of scores, one of
integers alone, one with rows of masked tokens; each is named by its folder."""
CPP = Path(__file__).parents[1] / "cpp"


def write_bundles(folder: Path) -> None:
    """Write a bundle of each kind, with its C++ folder."""
    for name, words in VARIETY.items():
        write_bundle(folder / name, words)


def write_bundle(folder: Path, words: str) -> None:
    """Write the bundle that words of a command line ask for, unproved."""
    common = ["--max-len", "70", "--cpp", "--no-validate", "-q", "-o", str(folder)]
    result = CliRunner().invoke(main, ["export", *common, *shlex.split(words)], catch_exceptions=False)
    assert result.exit_code == 0, result.output


def run(*words: object, cwd: Path | None = None, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a program, with variables of the environment besides those there are."""
    env = {**os.environ, **variables}
    return subprocess.run([*map(str, words)], capture_output=True, text=True, check=False, env=env, cwd=cwd)


def run_watched(*words: object) -> subprocess.CompletedProcess[str]:
    """Run a program that ThreadSanitizer watches: it ends at the first report."""
    return run(*words, TSAN_OPTIONS=f"halt_on_error=1 suppressions='{CPP / 'tsan.supp'}'")
