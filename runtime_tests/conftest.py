"""What the tests share: the data folder, small exports, the command line as a function."""

import gc
import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from posenc_export.cli import main

DATA = Path(__file__).parent / "data"
ROOT = Path(__file__).parents[1]

warnings.filterwarnings("ignore", category=DeprecationWarning, module="torch")

Cli = Callable[..., Result]


def pytest_collection_finish() -> None:
    """Take what was imported, transformers above all, out of each later collection of garbage: seconds every time."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def seed_tables() -> Any:
    return json.loads((DATA / "seed_tables.json").read_text(encoding="utf-8"))


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cli:
    """Run a `posenc` command in an empty folder."""
    monkeypatch.chdir(tmp_path)

    def run(*args: str) -> Result:
        return CliRunner().invoke(main, list(args), catch_exceptions=False)

    return run


@pytest.fixture(scope="session")
def small_bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small dynamic bundle that passed; tests copy it before they change it."""
    folder = tmp_path_factory.mktemp("bundle") / "good"
    args = ["export", "--dynamic", "--positions", "offset", "-p", "d_model=8", "--max-len", "40", "-o", str(folder)]
    result = CliRunner().invoke(main, args, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return folder
