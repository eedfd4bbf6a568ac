"""`posenc runtimes`: what runs here, and how to get the rest; and the words for how to install."""

import json
import re
import tomllib

import pytest

from helpers.shared import ROOT, Cli
from posenc_export.common.install import EXTRAS, install_line
from posenc_export.proof.runtimes import RUNTIMES
from posenc_export.proof.runtimes.sessions import CPU_BUILD
from posenc_models.asking.load import INSTALL


def test_the_requirements_of_extras_are_those_of_the_package() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    whole = {}
    for name, requirements in extras.items():
        plain = [one.partition(";")[0].strip() for one in requirements]
        whole[name] = [r for one in plain for r in (extras["plot"] if one == "posenc-export[plot]" else [one])]
    assert {name: tuple(whole[name]) for name in EXTRAS} == EXTRAS
    assert install_line("transformers") == INSTALL


def test_every_runtime_is_listed_with_what_it_lacks(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NODE_PATH", "/nowhere")
    first, *lines = cli("runtimes").output.splitlines()
    assert [line.split()[0] for line in lines] == list(RUNTIMES)
    rows = json.loads(cli("runtimes", "--json").output)["runtimes"]
    for line, row, runtime in zip(lines, rows, RUNTIMES.values(), strict=False):
        assert (row["name"], row["format"], row["device"]) == (runtime.name, runtime.format, runtime.device)
        assert line.split()[2].strip(":") == ("found" if row["found"] else "missing")
        assert row["lacks"] in line
        assert row["found"] or row["lacks"] == runtime.left_out() != ""
    (web,) = (row for row in rows if row["name"] == "onnxruntime-web")
    assert (web["found"], "npm install" in web["lacks"]) == (False, True)
    assert CPU_BUILD.endswith(install_line("cuda"))
    assert all("pip install" in row["lacks"] for row in rows if "is a CPU build" in row["lacks"])
    found = sum(row["found"] for row in rows)
    assert first.startswith(f"{found} of {len(RUNTIMES)} runtimes run here")


def test_an_old_onnxruntime_is_told_how_it_becomes_a_newer_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("onnxruntime.InferenceSession", object)
    assert re.search(
        "1.24 and newer do: pip install --upgrade onnxruntime(-gpu)?$", RUNTIMES["cuda-placement"].left_out()
    )
