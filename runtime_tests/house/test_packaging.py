"""The wheel holds the three packages and nothing else; the README's commands to install are those of CI."""

import os
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

from helpers.opened_pages import AXE
from helpers.shared import ROOT, need
from posenc_export.proof.runtimes.onnxruntime_web import PACKAGE, TRIED


def test_the_contents_of_the_wheel(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(tmp_path), str(ROOT)]
    subprocess.run(build, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("posenc_export-*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    tops = {name.split("/")[0] for name in names}
    assert {t for t in tops if not t.endswith(".dist-info")} == {"posenc", "posenc_export", "posenc_models"}
    for package in ("posenc", "posenc_export", "posenc_models"):
        assert f"{package}/py.typed" in names
    assert {
        "posenc_export/write/cpp/runner/runner.cpp",
        "posenc_export/write/cpp/session/include/posenc/session.hpp",
    } <= set(names)
    assert {
        "posenc_export/proof/runtimes/onnxruntime_web.cjs",
        "posenc_export/proof/runtimes/cuda_stubs.c",
        "posenc_export/proof/web/session.mjs",
    } <= set(names)
    assert {f"posenc_export/proof/web/{name}" for name in ("button.mjs", "onnxruntime-web.LICENSE")} <= set(names)
    assert "posenc_export/show/scrolling.css" in names
    assert {"posenc/schemes/sinusoidal.py", "posenc_export/cli/__init__.py"} <= set(names)
    assert {"posenc_models/networks/embedding.py", "posenc_models/config/class_fields.json"} <= set(names)
    (entry,) = [n for n in names if n.endswith("entry_points.txt")]
    points = zipfile.ZipFile(wheel).read(entry).decode()
    assert "posenc = posenc_export.cli:main" in points
    assert "posenc-export = posenc_export.cli:export" in points


@pytest.mark.exhaustive
def test_what_the_wheel_holds_of_cpp_builds_a_runner(tmp_path: Path) -> None:
    need("ort-cpp")
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(tmp_path), str(ROOT)]
    subprocess.run(build, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("posenc_export-*.whl")
    zipfile.ZipFile(wheel).extractall(tmp_path / "site")
    code = (
        "import posenc_export.proof.runtimes.runner_build as n; assert 'site' in n.__file__; assert n.RUNNER.is_dir(); "
        "p = n.Program('ort_runner', 'onnx', 'onnxruntime'); p.build(); assert not p.problem(), p.problem()"
    )
    env = {**os.environ, "PYTHONPATH": str(tmp_path / "site"), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    subprocess.run([sys.executable, "-c", code], check=True, env=env, cwd=tmp_path)


def test_the_install_and_test_commands_are_the_ones_that_ci_runs() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    ci = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert "pytest -n 2 -q" in readme
    assert "pytest -n 2 -q" in ci
    assert f'npm install --prefix "$fresh/npm" --silent {PACKAGE}@{TRIED}' in ci
    assert "@".join(AXE) in ci
    for line in ("torch==2.13.0", "-c constraints.txt"):
        assert line in readme
        assert line in ci


def test_mypy_checks_what_the_wheel_holds_and_the_tests() -> None:
    tools = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]
    wheel, tests = tools["hatch"]["build"]["targets"]["wheel"]["packages"], tools["pytest"]["ini_options"]["testpaths"]
    assert set(tools["mypy"].get("files", ())) == {*wheel, *tests}
