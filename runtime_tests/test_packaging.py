"""The wheel holds the three packages and nothing else; the README's commands are run as they stand there."""

import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from conftest import DATA, ROOT


def test_the_contents_of_the_wheel(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(tmp_path), str(ROOT)]
    subprocess.run(build, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("posenc_export-*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    tops = {name.split("/")[0] for name in names}
    assert {t for t in tops if not t.endswith(".dist-info")} == {"posenc", "posenc_export", "posenc_models"}
    for package in ("posenc", "posenc_export", "posenc_models"):
        assert f"{package}/py.typed" in names
    assert {"posenc/schemes/sinusoidal.py", "posenc_export/cli.py", "posenc_models/embedding.py"} <= set(names)
    (entry,) = [n for n in names if n.endswith("entry_points.txt")]
    points = zipfile.ZipFile(wheel).read(entry).decode()
    assert "posenc = posenc_export.cli:main" in points
    assert "posenc-export = posenc_export.cli:export" in points


def commands() -> list[str]:
    """The README's command lines, in order: those behind a `$ `."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    return [m.strip() for m in re.findall(r"^\$ (.+)$", text, flags=re.MULTILINE)]


QUICK = [c for c in commands() if c.startswith("posenc") and "bench" not in c]


def test_the_readme_has_commands() -> None:
    assert len(QUICK) >= 6
    assert QUICK[0] == "posenc-export --dynamic"


@pytest.fixture(scope="module")
def workplace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("readme commands")
    shutil.copy(DATA / "configs" / "llama-3.1-8b.json", folder / "config.json")
    return folder


@pytest.mark.xdist_group("readme")
def test_every_command_of_the_readme(workplace: Path) -> None:
    bin_ = str(Path(sys.executable).parent)
    for command in QUICK:
        done = subprocess.run(
            ["bash", "-c", f'PATH="{bin_}:$PATH" {command}'],
            cwd=workplace,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"


def test_the_install_and_test_commands_are_the_ones_that_ci_runs() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    ci = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert "pytest -n 2 -q" in readme
    assert "pytest -n 2 -q" in ci
    for line in ("torch==2.13.0", "-c constraints.txt"):
        assert line in readme
        assert line in ci
