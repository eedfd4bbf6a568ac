"""The wheel holds the three packages and nothing else; the README's commands are run as they stand there."""

import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from conftest import DATA, ROOT, need


def test_the_contents_of_the_wheel(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(tmp_path), str(ROOT)]
    subprocess.run(build, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("posenc_export-*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    tops = {name.split("/")[0] for name in names}
    assert {t for t in tops if not t.endswith(".dist-info")} == {"posenc", "posenc_export", "posenc_models"}
    for package in ("posenc", "posenc_export", "posenc_models"):
        assert f"{package}/py.typed" in names
    assert {"posenc_export/cpp/runner/runner.cpp", "posenc_export/cpp/session/session.hpp"} <= set(names)
    assert {"posenc/schemes/sinusoidal.py", "posenc_export/cli/__init__.py", "posenc_models/embedding.py"} <= set(names)
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


def run(command: str, folder: Path) -> None:
    bin_ = str(Path(sys.executable).parent)
    words = ["bash", "-c", f'export PATH="{bin_}:$PATH"; {command}']
    process = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=300, check=False)
    assert process.returncode == 0, f"{command}\n{process.stdout}\n{process.stderr}"


@pytest.fixture(scope="module")
def readme_folder(workplace: Path) -> Path:
    for command in QUICK:
        run(command, workplace)
    return workplace


def test_every_command_of_the_readme(readme_folder: Path) -> None:
    assert (readme_folder / "sinusoidal-dynamic" / "report.json").is_file()


def test_the_commands_that_build_cpp(readme_folder: Path) -> None:
    need("ort-cpp")
    (command,) = (c for c in commands() if c.startswith("cd "))
    run(command, readme_folder)


@pytest.mark.parametrize(
    ("uses", "options"),
    [
        ("posenc_model.hpp", "-std=c++20 -I embedded/cpp -I embedded/cpp/session"),
        ("model.hpp", "-std=c++17 -I table"),
    ],
)
def test_the_cpp_of_the_readme_compiles(readme_folder: Path, uses: str, options: str) -> None:
    need("header-cpp")
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```cpp\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)
    (block,) = (b for b in blocks if f'"{uses}"' in b)
    (readme_folder / "readme.cpp").write_text(block)
    run(f"${{CXX:-c++}} -fsyntax-only -Wall -Wextra -Werror {options} readme.cpp", readme_folder)


def test_what_the_wheel_holds_of_cpp_builds_a_runner(tmp_path: Path) -> None:
    need("ort-cpp")
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(tmp_path), str(ROOT)]
    subprocess.run(build, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("posenc_export-*.whl")
    zipfile.ZipFile(wheel).extractall(tmp_path / "site")
    code = (
        "import posenc_export.runtimes.runner_build as n; assert 'site' in n.__file__; assert n.RUNNER.is_dir(); "
        "p = n.Program('ort_runner', 'onnx', 'onnxruntime'); p.build(); assert not p.problem(), p.problem()"
    )
    env = {**os.environ, "PYTHONPATH": str(tmp_path / "site"), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    subprocess.run([sys.executable, "-c", code], check=True, env=env, cwd=tmp_path)


def test_the_install_and_test_commands_are_the_ones_that_ci_runs() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    ci = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert "pytest -n 2 -q" in readme
    assert "pytest -n 2 -q" in ci
    for line in ("torch==2.13.0", "-c constraints.txt"):
        assert line in readme
        assert line in ci
