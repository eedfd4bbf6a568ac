"""A graph has one id in every file of a bundle: of what it computes, whatever it is written with, wherever."""

import json
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import save_file
from torch import Tensor, nn

import posenc_export
from helpers.shared import with_tests
from posenc.parameters import defaults
from posenc.scheme import SCHEMES
from posenc.spec import Spec
from posenc_export.bundle.folder import Bundle
from posenc_export.bundle.identity import ID, PREFIX, id_of
from posenc_export.bundle.manifest import Manifest
from posenc_export.common.errors import BadInput
from posenc_export.proof.exporter import ExportOptions, write_bundle
from posenc_export.proof.exporter.identifying import facts_for
from posenc_export.write.formats import FORMATS, WriteRequest
from posenc_export.write.targets.scheme import scheme_target

WRITTEN = ("onnx", "torchscript", "pt2", "header", "header-c99")
REQUEST = WriteRequest((), 70)
OTHER = "0" * 64


def id_for(scheme: str, spec: Spec, parameters: Mapping[str, object], seed: int = 0) -> str:
    return id_of(facts_for(scheme_target(scheme, spec, parameters, seed), REQUEST, {}))


def written(folder: Path, spec: Spec, *formats: str, **options: object) -> Manifest:
    """Write rope in some formats."""
    folder.mkdir()
    target = scheme_target("rope", spec, {"head_dim": 8}, 0)
    return write_bundle(target, ExportOptions(formats, validate=False, **options), folder)[0]  # type: ignore[arg-type]


def test_what_two_runtimes_load_has_the_id_of_the_manifest(small_bundle: Path) -> None:
    manifest = Bundle.open(small_bundle).manifest
    files = [FORMATS[one.format].stamped(small_bundle / one.file, ID) for one in manifest.artifacts]
    assert files == [manifest.id, manifest.id]
    assert manifest.id == id_of(manifest.facts)


@pytest.mark.exhaustive
def test_every_file_has_the_id_and_the_facts_that_it_is_made_of(tmp_path: Path) -> None:
    manifest = written(tmp_path / "all", Spec("dynamic", max_len=70), *WRITTEN)
    assert manifest.id == id_of(manifest.facts)
    for name in WRITTEN:
        path = tmp_path / "all" / FORMATS[name].file
        assert FORMATS[name].stamped(path, ID) == manifest.id, name
        if not name.startswith("header"):  # where a long fact has several lines
            facts = {fact: FORMATS[name].stamped(path, PREFIX + fact) for fact in manifest.facts}
            assert facts == manifest.facts, name
    of_script: dict[str, object] = {ID: "", f"{PREFIX}params.rope_theta": ""}
    torch.jit.load(str(tmp_path / "all" / "model.pt"), _extra_files=of_script)
    assert of_script == {ID: manifest.id.encode(), f"{PREFIX}params.rope_theta": b"10000"}
    of_program = {ID: ""}
    torch.export.load(tmp_path / "all" / "model.pt2", extra_files=of_program)
    assert of_program[ID] == manifest.id


@pytest.mark.exhaustive
def test_what_changes_no_number_changes_no_id(tmp_path: Path) -> None:
    first = written(tmp_path / "first", Spec("dynamic", max_len=70), "onnx")
    other = written(tmp_path / "other", Spec("dynamic", max_len=90), "onnx", rotary_op="onnx", seed=3, namespace="a")
    assert (first.opset, other.opset) == (18, 23)
    assert first.id == other.id
    spec = Spec("dynamic")
    assert id_for("rope", spec, {"head_dim": 8}) == id_for(
        "rope", spec, {"head_dim": 8, "rope_theta": 10000, "rotary_dim": None}
    )
    for name in ("one.safetensors", "two.safetensors"):
        save_file({"table": np.ones((70, 8), np.float32)}, tmp_path / name)
    spec = Spec(max_len=70)
    paths = [str(tmp_path / name) for name in ("one.safetensors", "two.safetensors")]
    assert len({id_for("learned", spec, {"weights": path, "key": "table"}) for path in paths}) == 1


@pytest.mark.parametrize("mode", ["baked", "dynamic"])
def test_every_sample_of_every_scheme_has_an_id_of_its_own(mode: str) -> None:
    spec, known = Spec(mode, max_len=70), {}  # type: ignore[arg-type, var-annotated]
    for scheme in SCHEMES.values():
        for sample in scheme.samples:
            with suppress(BadInput):  # there is no such form
                one = id_for(scheme.name, spec, sample)
                whole = (scheme.name, {**defaults(scheme.parameters), **sample})
                assert one == id_for(scheme.name, spec, sample), whole
                assert known.setdefault(one, whole) == whole
    assert len(known) > 30


def test_weights_and_seeds_are_part_of_it() -> None:
    spec = Spec(max_len=70)
    ids = [id_for("learned", spec, {"d_model": 8}, seed) for seed in (0, 0, 1)]
    assert ids[0] == ids[1] != ids[2]
    assert id_for("sinusoidal", spec, {"d_model": 8}, 0) == id_for("sinusoidal", spec, {"d_model": 8}, 1)


class Power(nn.Module):
    """A module with a number that is no tensor."""

    def __init__(self, power: int) -> None:
        super().__init__()
        self.power = power
        self.weight = nn.Parameter(torch.ones(8))

    def forward(self, x: Tensor) -> Tensor:
        return x**self.power * self.weight


class Recurrent(nn.Module):
    """A network that is traced."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(8, 8, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.lstm(x)[0]
        return y


def own(module: nn.Module, to: Path, *formats: str, opset: int | None = None) -> str:
    inputs = "x: float32[batch, seq, 8]"
    made = posenc_export.export(module, inputs=inputs, to=to, formats=formats, validate=False, max_len=20, opset=opset)
    return made.manifest.id


def test_two_modules_of_equal_tensors_differ_by_their_code(tmp_path: Path) -> None:
    ids = [own(Power(power), tmp_path / str(i), "onnx") for i, power in enumerate((2, 3, 2))]
    assert ids[0] == ids[2] != ids[1]
    assert own(Power(2), tmp_path / "script", "torchscript") == ids[0], "whatever format it is written in"


@pytest.mark.exhaustive
def test_a_module_that_was_validated_or_traced_has_its_id(tmp_path: Path) -> None:
    inputs = "x: float32[batch, seq, 8]"
    made = posenc_export.export(Power(2), inputs=inputs, to=tmp_path / "proved", formats=["onnx"], max_len=20)
    assert made.passed
    assert made.manifest.id == own(Power(2), tmp_path / "unproved", "onnx")
    torch.manual_seed(0)
    module = Recurrent().eval()  # torch.export does not take it
    ids = {own(module, tmp_path / str(opset), "onnx", opset=opset) for opset in (18, 20)}
    assert ids == {own(module, tmp_path / "recurrent", "torchscript")}


@pytest.mark.exhaustive
def test_another_process_and_folder_give_the_same_ids(tmp_path: Path) -> None:
    """Also what torch.export cannot take; words of a command line, in a folder of its own."""
    code = """
import json, sys
from pathlib import Path
from click.testing import CliRunner
from posenc_export.cli import main
ids = []
for i, words in enumerate(json.loads(sys.argv[1])):
    done = CliRunner().invoke(main, ["export", *words, "--no-validate", "-q", "-o", f"{i}"], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    ids.append(json.loads(Path(f"{i}/manifest.json").read_text())["id"])
print(json.dumps(ids))
"""
    own_module = ["helpers.broken:Good", "-i", "x: float32[batch, seq, 8]", "-f", "onnx", "--max-len", "20"]
    commands = [["learned", "-p", "d_model=8", "-f", "onnx"], own_module]
    runs = []
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        words = [sys.executable, "-c", code, json.dumps(commands)]
        env = {**with_tests(), "PYTHONHASHSEED": "1" if name == "first" else "2"}
        done = subprocess.run(words, cwd=tmp_path / name, env=env, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        runs.append(json.loads(done.stdout.splitlines()[-1]))
    assert runs[0] == runs[1]
    assert len(set(runs[0])) == len(commands)
