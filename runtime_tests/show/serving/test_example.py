"""The page of examples/web, exported by the commands that its README shows, and opened in the real browser."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch
from click.testing import CliRunner

from helpers.hosts import any_host
from helpers.shared import ROOT, need
from helpers.visits import PATIENCE, visited
from posenc import build
from posenc.spec import Spec
from posenc_export.cli import export
from posenc_export.proof.runtimes.npm import package
from posenc_export.proof.runtimes.onnxruntime_web import PACKAGE, TRIED

if TYPE_CHECKING:
    from playwright.sync_api import Browser

EXAMPLE = ROOT / "examples" / "web"
README = (EXAMPLE / "README.md").read_text(encoding="utf-8")


def numbers(count: int) -> torch.Tensor:
    """The numbers that the page makes: each is a float32."""
    return torch.from_numpy((37 * np.arange(count) % 101 / 64 - 0.75).astype(np.float32))


def expected() -> dict[str, list[float]]:
    """What eager modules give."""
    heads = numbers(8 * 64).reshape(1, 1, 8, 64)
    rope = build("rope", Spec("dynamic", positions="explicit"), head_dim=64).module
    q, k = rope(heads, heads, torch.arange(5, 13)[None])
    steps = build("timestep", Spec("dynamic", positions="explicit")).module(torch.tensor([0.0, 1.0, 999.5]))
    return {name: tensor.flatten().tolist() for name, tensor in {"q": q, "k": k, "steps": steps}.items()}


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the example, with its bundles and the installed library."""
    need("browser-wasm")
    folder = tmp_path_factory.mktemp("examples") / "web"
    shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns("bundles", "node_modules"))
    commands = re.findall(r"^posenc-export (.+) -o (\S+)$", README, flags=re.MULTILINE)
    assert len(commands) == 2
    for words, place in commands:
        args = [*shlex.split(words), "-o", str(folder / place), "--no-validate", "-q"]
        result = CliRunner().invoke(export, args, catch_exceptions=False)
        assert result.exit_code == 0, result.output
    assert f"{PACKAGE}@{TRIED}" in README
    (folder / "node_modules").mkdir()
    (folder / "node_modules" / PACKAGE).symlink_to(package(PACKAGE, TRIED))
    return folder


@pytest.mark.exhaustive
@pytest.mark.parametrize("provider", ["wasm", "webgpu"])
def test_the_page_has_the_bits_of_eager_modules(chromium: Browser, example: Path, provider: str) -> None:
    with any_host(example) as address, visited(chromium, f"{address}?{provider}") as visit:
        line = visit.page.locator("#line", has_text="call")
        line.wait_for(timeout=PATIENCE)
        assert line.inner_text() == f"{provider}: the bits of one call, token by token"
        assert visit.page.evaluate("result") == expected()
        shown = visit.page.locator("#numbers").inner_text()
        assert shown.strip() in README
        assert visit.said == []


def test_the_page_is_short() -> None:
    assert len((EXAMPLE / "index.html").read_text(encoding="utf-8").splitlines()) <= 75
