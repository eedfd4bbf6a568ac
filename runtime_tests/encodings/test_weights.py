"""Tables from files: how long they are, what is said of a file that is none, and that nothing is left open."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import posenc
import posenc_export
from helpers.shared import Cli, need
from posenc_export.common.errors import BadInput
from posenc_export.proof.runtimes import RUNTIMES, RunFailed


@pytest.fixture
def table(tmp_path: Path) -> Path:
    np.save(tmp_path / "w.npy", np.linspace(0, 1, 480, dtype=np.float32).reshape(60, 8))
    return tmp_path / "w.npy"


def test_max_len_is_by_default_the_rows_of_the_file(cli: Cli, table: Path) -> None:
    words = ["export", "learned", "-p", f"weights={table}", "-f", "onnx", "--runtime", "ort-cpu"]
    assert cli(*words, "-q", "-o", "a").exit_code == 0
    assert json.loads(Path("a/manifest.json").read_text())["max_len"] == 60
    assert cli(*words, "-q", "-o", "b", "--max-len", "20").exit_code == 0
    assert json.loads(Path("b/manifest.json").read_text())["max_len"] == 20
    result = cli(*words, "--max-len", "61")
    assert (result.exit_code, result.output) == (2, f"Error: max_len must be at most the 60 rows of {table}, got 61\n")


def test_from_python_too(table: Path, tmp_path: Path) -> None:
    options: dict[str, Any] = {"formats": ["onnx"], "validate": False, "weights": str(table)}
    assert posenc_export.export("learned", to=tmp_path / "a", **options).manifest.max_len == 60
    assert posenc_export.export("learned", to=tmp_path / "b", max_len=9, **options).manifest.max_len == 9
    spec = posenc.Spec(max_len=7)
    assert posenc_export.export("learned", to=tmp_path / "c", spec=spec, **options).manifest.max_len == 7
    options["weights"] = "none.npy"
    with pytest.raises(BadInput, match=r"no such file: none\.npy"):
        posenc_export.export("learned", to=tmp_path / "d", **options)


@pytest.mark.parametrize("shape", [(0, 8), (5, 0), (0, 5, 8), (1, 0, 8)])
@pytest.mark.parametrize("scheme", ["learned", "interpolated", "t5_bias", "clipped_relative"])
def test_an_empty_table_is_said_to_be_empty(tmp_path: Path, scheme: str, shape: tuple[int, ...]) -> None:
    np.save(tmp_path / "w.npy", np.zeros(shape, np.float32))
    with pytest.raises(
        ValueError, match=r"\Aweights must be floats of shape .*, got an empty torch.float32 .*\Z"
    ) as caught:
        posenc.build(scheme, weights=str(tmp_path / "w.npy"))
    assert f"{shape} in {(tmp_path / 'w.npy').as_posix()}" in str(caught.value)


class Other:
    """Something that a checkpoint may hold beside tensors."""


UNREADABLE: dict[str, tuple[str, Callable[[Path], object]]] = {
    "objects": ("x.pt", lambda path: torch.save({"a": torch.ones(8, 4), "b": Other()}, path)),
    "a module": ("x.pth", lambda path: torch.save(nn.Linear(3, 4), path)),
    "no torch": ("x.bin", lambda path: path.write_bytes(b"abc")),
    "no numpy": ("x.npy", lambda path: path.write_bytes(b"abc")),
    "numpy of objects": ("x.npy", lambda path: np.save(path, np.array([{}], dtype=object))),
    "no safetensors": ("x.safetensors", lambda path: path.write_bytes(b"abc" * 20)),
}


@pytest.mark.parametrize("kind", UNREADABLE)
def test_what_cannot_be_read_is_one_line_that_advises_nothing_unsafe(cli: Cli, kind: str) -> None:
    name, write = UNREADABLE[kind]
    write(Path(name))
    result = cli("export", "learned", "-p", f"weights={name}")
    assert (result.exit_code, result.output.count("\n")) == (2, 1), result.output
    assert f"weights: cannot read {name} as {Path(name).suffix}: expected " in result.output
    for unsafe in ("weights_only", "allow_pickle", "pickle", "trust", "\x1b"):
        assert unsafe not in result.output


@pytest.mark.parametrize("damage", [lambda content: content[: len(content) // 2], lambda _: b"PK none"])
def test_a_damaged_program_is_one_line_and_no_traceback(
    tmp_path: Path, small_bundle: Path, damage: Callable[[bytes], bytes], capfd: pytest.CaptureFixture[str]
) -> None:
    from posenc_export.bundle.folder import Bundle

    program = torch.export.export(nn.Linear(64, 64), (torch.zeros(2, 64),))
    torch.export.save(program, tmp_path / "model.pt2")
    (tmp_path / "model.pt2").write_bytes(damage((tmp_path / "model.pt2").read_bytes()))
    capfd.readouterr()
    with pytest.raises(RunFailed, match=r"cannot load model\.pt2: .") as raised:
        RUNTIMES["pt2-cpu"].open(tmp_path / "model.pt2", Bundle.open(small_bundle).manifest, trusted=True)
    assert "\n" not in str(raised.value)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("place", ["", "rope_scaling"])
def test_a_config_that_says_something_twice_is_refused(cli: Cli, place: str) -> None:
    inner = '{"type": "linear", "factor": 2.0, "factor": 4.0}'
    outer = '"rope_theta": 1e4, "rope_theta": 1e6' if not place else f'"rope_theta": 1e4, "rope_scaling": {inner}'
    Path("config.json").write_text(f'{{"model_type": "llama", "head_dim": 16, {outer}}}')
    result = cli("export", "--from-hf", "config.json")
    key = "factor" if place else "rope_theta"
    expected = f"Error: config.json is not JSON: it says {key!r} twice in one object\n"
    assert (result.exit_code, result.output) == (2, expected)


@pytest.mark.exhaustive
def test_a_runner_leaves_no_file_open(small_bundle: Path) -> None:
    need("ort-cpp")
    words = ["-W", "always::ResourceWarning", "-m", "posenc_export", "validate", str(small_bundle), "-q"]
    command = [sys.executable, *words, "--runtime", "ort-cpp"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
