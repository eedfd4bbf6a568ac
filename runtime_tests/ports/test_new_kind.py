"""A new kind of port is two files: a dataclass in posenc/ports.py, and a file in carries/; everything else follows."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from helpers.shared import ROOT, Once

pytestmark = pytest.mark.exhaustive
CACHES = shutil.ignore_patterns("__pycache__", ".*_cache")
PORTS, KIND = "posenc/ports.py", "export/posenc_export/bundle/carries/durations.py"
BEFORE = 'Carries: TypeAlias = (\n    "'
DATACLASS = '''@dataclass(frozen=True)
class Durations:
    """How many frames each token lasts, as length regulators of speech take it: integers below `end`."""

    end: int | None = None


'''
FILE = '''"""Durations: how many frames each token lasts."""

import numpy as np

from posenc.ports import Array, Durations, Port
from posenc_export.common.arrays import INTEGERS
from posenc_export.bundle.carries import Limits, PlannedCall, PortKind, Random, Shape, Word

FRAMES = 8


def _feed(carries: Durations, port: Port, shape: Shape, call: PlannedCall, rng: Random) -> Array:
    """Return durations at random, the longest among them; or those that must be refused."""
    if call.refused:
        return np.full(shape, call.first)
    durations = np.asarray(rng.integers(0, carries.end or FRAMES, shape))
    durations.flat[-1] = (carries.end or FRAMES) - 1
    return durations


KIND = PortKind(
    Durations,
    {"end": "NoWhole"},
    feed=_feed,
    least=lambda durations, port, sizes: 1,
    limits=lambda durations: Limits(end=durations.end),
    refused=lambda durations: [(durations.end, 2)] if durations.end else (),
    looked_up=True,
    words=(Word("durations", Durations, INTEGERS, "end"),),
    usual_names=("durations",),
    by_name=lambda dtype, end: (Durations(end), "durations") if dtype in INTEGERS else None,
    misshapen=lambda durations, sizes: "" if sizes else "an axis along which tokens are",
)
'''
MODULE = '''import torch


class Lasting(torch.nn.Module):
    """A learned row for each duration, added to x."""

    def __init__(self) -> None:
        super().__init__()
        self.table = torch.nn.Embedding(20, 8)

    def forward(self, x: torch.Tensor, frames: torch.Tensor) -> torch.Tensor:
        return x + self.table(frames)
'''
DRAW = """
from lasting import Lasting
from posenc_export.write.inputs.ports import parse_ports
from posenc_export.show.plots.encodings import called
from posenc_export.write.targets.module import own_encoding

ports = parse_ports(("x: float32[batch, seq, 8]", "durations: int64[batch, seq] < 20"))
call = called(own_encoding(Lasting(), ports, 64, 0, Lasting), 16)
print([port.name for port in ports], type(ports[1].carries).__name__, call.outputs[0][1].shape)
"""


def run(project: Path, *words: str, status: int = 0) -> str:
    """Run Python in the copy; return what it prints."""
    path = os.pathsep.join(str(project / part) for part in (".", "export"))
    env = {**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}
    env = {k: v for k, v in env.items() if not k.startswith("PYTEST")}
    done = subprocess.run(
        [sys.executable, *words], cwd=project, env=env, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == status, f"{words}\n{done.stdout}\n{done.stderr}"
    return done.stdout + done.stderr


@pytest.fixture
def project(once: Once) -> Path:
    """A copy of the product with a kind of port more, and a bundle of a module that takes it."""

    def make(folder: Path) -> None:
        for part in ("posenc", "export"):
            shutil.copytree(ROOT / part, folder / part, ignore=CACHES)
        ports = (folder / PORTS).read_text(encoding="utf-8")
        assert ports.count(BEFORE) == 1
        (folder / PORTS).write_text(ports.replace(BEFORE, f"{DATACLASS}{BEFORE}Durations | "), encoding="utf-8")
        assert not (folder / KIND).exists()
        (folder / KIND).write_text(FILE, encoding="utf-8")
        (folder / "lasting.py").write_text(MODULE, encoding="utf-8")
        inputs = ("-i", "x: float32[batch, seq, 8]", "-i", "frames: int64[batch, seq] durations < 20")
        words = ("export", "lasting:Lasting", *inputs, "--max-len", "70", "-f", "onnx", "--cpp", "-o", "lasting")
        run(folder, "-m", "posenc_export", *words)

    return once("durations", make)


def test_it_is_exported_and_validated(project: Path) -> None:
    report = json.loads(run(project, "-m", "posenc_export", "validate", "lasting", "--json"))
    assert report["passed"]
    with np.load(project / "lasting" / "golden.npz") as golden:
        fed = [golden[name] for name in golden.files if name.endswith("/frames")]
    assert len(fed) > 10
    assert {20} == {int(array.max()) for array in fed if array.max() > 19}  # what must be refused


def test_the_manifest_says_it(project: Path) -> None:
    manifest = json.loads((project / "lasting" / "manifest.json").read_text())
    assert manifest["inputs"][1]["carries"] == {"what": "durations", "end": 20}
    assert any(case["refused"] and case["first"] == 20 for case in manifest["cases"])
    schema = json.loads(run(project, "-m", "posenc_export.bundle.schema"))
    assert schema["$defs"]["DurationsJson"]["required"] == ["what", "end"]
    manifest["inputs"][1]["carries"]["end"] = "long"
    shutil.copytree(project / "lasting", project / "damaged", dirs_exist_ok=True)
    (project / "damaged" / "manifest.json").write_text(json.dumps(manifest))
    said = run(project, "-m", "posenc_export", "validate", "damaged", status=2)
    assert "inputs[1].carries.end must be a whole number of 64 bits, or null, got 'long'" in said


def test_the_class_in_cpp_refuses_it_and_the_example_fills_it(project: Path) -> None:
    header = (project / "lasting" / "cpp" / "include" / "lasting.hpp").read_text()
    assert "frames: int64[batch, seq] < 20" in header
    assert "frames_end = 20" in header
    assert "frames_(Model::frames_size(axes), 1)" in (project / "lasting" / "cpp" / "example.cpp").read_text()


def test_the_text_of_an_input_has_its_word_and_its_name(project: Path) -> None:
    assert "durations [< N]" in " ".join(run(project, "-m", "posenc_export", "export", "--help").split())
    for text, expected in (("x: float32[batch] durations", "no durations"), ("durations: int64[]", "an axis along")):
        said = run(project, "-m", "posenc_export", "export", "lasting:Lasting", "-i", text, status=2)
        assert f"expected {expected}" in said


def test_it_is_drawn(project: Path) -> None:
    assert run(project, "-c", DRAW).split("\n")[0] == "['x', 'durations'] Durations (1, 16, 8)"
