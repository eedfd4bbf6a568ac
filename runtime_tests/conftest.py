"""Fixtures and hooks: small exports, the command line as a function. What tests import is in `helpers`."""

import gc
import json
import os
import re
import shutil
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

# Each worker has a core: with as many threads as cores in each of them, torch's threads wait for one another, and an
# export takes several times as long. Processes that tests start inherit it. Before anything imports torch.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import pytest
from click.testing import CliRunner, Result
from filelock import FileLock

from helpers import deadline
from helpers.in_process import InProcess, child_here, keep_torchlib
from helpers.shared import DATA, Cli, Once, Running, Sanitized, need, why_missing
from helpers.statuses import statuses_of
from posenc.registry import Registry
from posenc.scheme import SCHEMES, Scheme
from posenc_export.cli import main
from posenc_export.common import messages
from posenc_export.proof.apart import parent
from posenc_export.proof.exporter import asking
from posenc_export.proof.runtimes import RUNTIMES
from posenc_export.read import inspect, loading

if TYPE_CHECKING:
    from playwright.sync_api import Browser

    from posenc_export.show.pages.content import Content

pytest.register_assert_rewrite("helpers.cpp_tools", "helpers.runner_tools")

warnings.filterwarnings("ignore", category=DeprecationWarning, module="torch")

MATRIX = re.compile(r"SCHEMES|samples|all_schemes")
"""What a file of tests has that goes through all schemes."""


def pytest_configure(config: pytest.Config) -> None:
    """With --scheme, have matrices hold that scheme alone: thousands of cases of others are not even collected."""
    config.pluginmanager.register(deadline, "deadline")
    name: str | None = config.getoption("scheme")
    if name is None:
        return
    record = SCHEMES[name]

    class OneScheme(Registry[Scheme]):
        """The registry of schemes, whose others are found by name alone."""

        def __iter__(self) -> Iterator[str]:
            return iter([record.name])

        def values(self) -> list[Scheme]:
            return [record]

    SCHEMES.__class__ = OneScheme
    config.option.markexpr = ""


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """With --scheme, leave out files that have no matrix of schemes."""
    if config.getoption("scheme") is None or not collection_path.name.startswith("test_"):
        return None
    return not MATRIX.search(collection_path.read_text(encoding="utf-8")) or None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """With --scheme, leave the tests of other schemes out, and say how many those are."""
    scheme: str | None = config.getoption("scheme")
    if scheme is not None:
        others = [item for item in items if scheme not in re.split(r"[\[\]\-: ]", item.nodeid)]
        config.hook.pytest_deselected(items=others)
        items[:] = [item for item in items if item not in set(others)]


def pytest_collection_finish() -> None:
    """Take what was imported, transformers above all, out of each later collection of garbage: seconds every time."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def running() -> Running:
    """Return a function that names the runtimes that run here unasked and read any of the formats.

    A fixture, since every runner is built before the test exports: another process of the same run may build one at
    any time, and what a report calls "not run" would run a second later.
    """
    here = [runtime for runtime in RUNTIMES.values() if not runtime.slow and not why_missing(runtime.name)]
    return lambda formats: {runtime.name for runtime in here if runtime.format in formats}


@pytest.fixture(scope="session")
def once(tmp_path_factory: pytest.TempPathFactory) -> Once:
    """Return `once(name, make)`: a folder that `make(folder)` fills, once for all processes that run tests."""
    base = tmp_path_factory.getbasetemp()
    base = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base

    def fill_once(name: str, make: Callable[[Path], None]) -> Path:
        folder = base / name
        with FileLock(f"{folder}.lock"):
            if not (folder / "made").is_file():
                folder.mkdir(exist_ok=True)
                make(folder)
                (folder / "made").touch()
        return folder

    return fill_once


@pytest.fixture(scope="session")
def seed_tables() -> Any:
    return json.loads((DATA / "seed_tables.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="session", autouse=True)
def _torchlib() -> Iterator[None]:
    """Read torch.onnx's library once for all exports of a process: a twentieth of each small one."""
    with pytest.MonkeyPatch.context() as patch:
        keep_torchlib(patch)
        yield


@pytest.fixture(autouse=True)
def _in_process(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Validate bundles, ask models and read files in the process of the test, but for a test that is marked `apart`.

    Users get processes of their own, which take seconds each to load torch; what runs in them is the same function.
    Tests that start `python -m posenc_export` have them too.
    """
    if not request.node.get_closest_marker("apart"):
        monkeypatch.setattr(parent, "validating", parent.in_process)
        monkeypatch.setattr(asking, "Asking", InProcess)
        for starts_children in (inspect, loading, messages):
            monkeypatch.setattr(starts_children, "Child", child_here)


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cli:
    """Run a `posenc` command in an empty folder; its --help must know every status that comes of it."""
    monkeypatch.chdir(tmp_path)

    def run(*args: str) -> Result:
        result = CliRunner().invoke(main, list(args), catch_exceptions=False)
        assert result.exit_code in statuses_of(args[0] if args else ""), result.output
        return result

    return run


@pytest.fixture(scope="session")
def small_bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small dynamic bundle that passed; tests copy it before they change it."""
    folder = tmp_path_factory.mktemp("bundle") / "good"
    args = ["export", "--dynamic", "--positions", "offset", "-p", "d_model=8", "--max-len", "40", "-o", str(folder)]
    result = CliRunner().invoke(main, args, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return folder


@pytest.fixture
def bundle(small_bundle: Path, tmp_path: Path) -> Path:
    """A copy of the small bundle that a test may change."""
    return Path(shutil.copytree(small_bundle, tmp_path / "moved to a folder with spaces"))


@pytest.fixture(scope="module")
def chromium() -> "Iterator[Browser]":
    """A real browser for the tests of a module; Playwright refuses a second one in the same process."""
    from helpers.browser import browser

    with browser() as running:
        yield running


@pytest.fixture(scope="session")
def content(small_bundle: Path) -> "Content":
    """What the page of the small bundle shows."""
    from helpers.opened_pages import content_of_bundle

    return content_of_bundle(small_bundle)


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """A whole bundle, small and made up, at the place `b`."""
    from scripts.kill_points import write

    write(tmp_path / "b", "old")
    return tmp_path / "b"


@pytest.fixture
def sanitized_runner(once: Once) -> Sanitized:
    """Return a function that gives a runner built with AddressSanitizer and UBSan."""
    from helpers.runner_tools import PROGRAMS
    from posenc_export.proof.runtimes.runner_build import RUNNER, build

    def build_once(name: str) -> Path:
        program, runtime, _ = PROGRAMS[name]
        need(runtime)
        settings = {"POSENC_BACKEND": program.backend, "POSENC_SANITIZE": "address,undefined", "POSENC_WERROR": "ON"}
        return once(f"sanitized-{name}", lambda folder: build(RUNNER, folder, settings)) / name

    return build_once


@pytest.fixture
def called(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The loaders that run code, replaced by what notes that it was called, and fails."""
    import torch
    import torch._inductor
    import torch.export

    import posenc_export.proof.runtimes.cpp

    names: list[str] = []

    def failing(name: str) -> Callable[..., None]:
        def load(*_: object, **__: object) -> None:
            names.append(name)
            raise AssertionError(f"{name} was called")

        return load

    for owner, name in ((torch.jit, "load"), (torch.export, "load"), (torch._inductor, "aoti_load_package")):
        monkeypatch.setattr(owner, name, failing(name))
    monkeypatch.setattr("posenc_export.proof.runtimes.header.compile_", failing("compile"))
    in_cpp = posenc_export.proof.runtimes.cpp._runner

    def runner(*args: Any, **how: Any) -> Any:
        return in_cpp(*args, **how) if how["format_"] == "onnx" else failing("C++ runner")()

    monkeypatch.setattr(posenc_export.proof.runtimes.cpp, "_runner", runner)
    return names
