"""Whatever is wrong with a run of a C++ runner is one clear line, and nothing that a sanitizer objects to."""

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from helpers.runner_tools import PROGRAMS, a_case, is_one_clear_line, run, save
from helpers.shared import Sanitized

pytestmark = pytest.mark.exhaustive  # runners are built with sanitizers for it


def lose(feeds: dict[str, np.ndarray]) -> None:
    del feeds["start"]


def narrow(feeds: dict[str, np.ndarray]) -> None:
    feeds["x"] = feeds["x"][..., :4]


def flatten(feeds: dict[str, np.ndarray]) -> None:
    feeds["x"] = feeds["x"][0]


def widen(feeds: dict[str, np.ndarray]) -> None:
    feeds["x"] = feeds["x"].astype(np.float64)


def too_far(feeds: dict[str, np.ndarray]) -> None:
    feeds["start"] = np.array([2**24], np.int64)


def negative(feeds: dict[str, np.ndarray]) -> None:
    feeds["start"] = np.array([-1], np.int64)


BAD_FEEDS = [
    (lose, "input 'start' is missing: expected start: int64[1] in "),
    (narrow, "input 'x' has shape (3, 2, 4): expected x: float32[batch, seq, 8]"),
    (flatten, "input 'x' has shape (2, 8): expected x: float32[batch, seq, 8]"),
    (widen, "expected x: float32[batch, seq, 8]"),
    (too_far, ""),
    (negative, ""),
]


@pytest.mark.parametrize(("change", "text"), BAD_FEEDS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_bad_inputs_are_one_line(
    sanitized_runner: Sanitized, bundle: Path, name: str, change: Callable[..., None], text: str
) -> None:
    _, feeds, _ = a_case(bundle)
    change(feeds)
    folder = save(bundle / "in", feeds)
    is_one_clear_line(run(sanitized_runner(name), bundle, folder, folder), text)


@pytest.mark.parametrize("name", PROGRAMS)
def test_damaged_npy_files_are_one_line(sanitized_runner: Sanitized, bundle: Path, tmp_path: Path, name: str) -> None:
    _, feeds, _ = a_case(bundle)
    path = save(tmp_path / "in", feeds) / "x.npy"
    whole = path.read_bytes()
    for content in (b"", whole[:5], whole[:60], whole[:-8], b"\0" * 200, whole.replace(b"(3,", b"(9,", 1)):
        path.write_bytes(content)
        is_one_clear_line(run(sanitized_runner(name), bundle, path.parent, tmp_path), "x.npy cannot be read")


@pytest.mark.parametrize("name", PROGRAMS)
def test_damaged_graphs_and_bundles_are_one_line(
    sanitized_runner: Sanitized, bundle: Path, tmp_path: Path, name: str
) -> None:
    program, file = sanitized_runner(name), bundle / PROGRAMS[name][2]
    _, feeds, _ = a_case(bundle)
    folders = (save(tmp_path / "in", feeds), tmp_path)
    whole, manifest = file.read_bytes(), (bundle / "manifest.json").read_text()
    for content in (b"", whole[:1000], whole[: len(whole) // 2], b"\x07" * 5000):
        file.write_bytes(content)
        is_one_clear_line(run(program, bundle, *folders), "")
    file.unlink()
    is_one_clear_line(run(program, bundle, *folders), "")
    file.write_bytes(whole)
    edits = [
        (manifest[:100], "manifest.json is damaged"),
        ("[]", "manifest.json is damaged"),
        (manifest.replace('"float32"', '"float31"'), "unknown dtype 'float31'"),
        (manifest.replace(f'"{file.name}"', f'"../{file.name}"'), "is not a file of the bundle"),
        (manifest.replace('"format": "', '"format": "not-'), "holds nothing that this runs"),
    ]
    for text, reason in edits:
        (bundle / "manifest.json").write_text(text)
        is_one_clear_line(run(program, bundle, *folders), reason)
    is_one_clear_line(run(program, tmp_path / "nowhere", *folders), "is not a bundle")


def test_wrong_usage_is_one_line(sanitized_runner: Sanitized, bundle: Path) -> None:
    program = sanitized_runner("ort_runner")
    for words, text in (
        ((bundle, "in"), "expected BUNDLE, or BUNDLE IN OUT"),
        ((bundle, "--devise", "cpu"), "unknown option --devise"),
        ((bundle, "--device"), "--device needs a value"),
        ((bundle, "--device", "tpu"), "--device is 'tpu': expected cpu or cuda"),
        ((bundle, "--format", "torchscript"), "holds nothing that this runs: expected torchscript"),
    ):
        is_one_clear_line(run(program, *words), text)
    assert run(program, "--help").returncode == 0
    assert "headers 1." in run(program, "--version").stdout


@pytest.mark.parametrize("name", PROGRAMS)
def test_cuda_that_is_not_there_is_one_line(sanitized_runner: Sanitized, bundle: Path, name: str) -> None:
    if shutil.which("nvidia-smi"):
        pytest.skip("this machine has CUDA: the CUDA runtimes are tested in its place")
    is_one_clear_line(run(sanitized_runner(name), bundle, "--device", "cuda"), "")
