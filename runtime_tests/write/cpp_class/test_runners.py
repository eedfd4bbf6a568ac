"""The C++ runners give the bits of eager and of Python, and outlive what they refuse; a crash names its signal."""

import shutil
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers.combinations import run as export_scheme
from helpers.model_folders import saved
from helpers.runner_tools import PROGRAMS, a_case, run, save
from helpers.shared import Cli, Once, Sanitized, need, one_of_each
from posenc.rope_types import ROPE_TYPES
from posenc.spec import Spec
from posenc_export.bundle.folder import Bundle
from posenc_export.proof.runtimes import RUNTIMES, RunFailed
from posenc_export.proof.runtimes.cpp import ORT, started


@pytest.mark.exhaustive  # it builds runners with sanitizers
@pytest.mark.parametrize("name", PROGRAMS)
def test_one_case_by_hand(sanitized_runner: Sanitized, bundle: Path, tmp_path: Path, name: str) -> None:
    _, feeds, expected = a_case(bundle)
    out = tmp_path / "out"
    out.mkdir()
    process = run(sanitized_runner(name), bundle, save(tmp_path / "in", feeds), out)
    assert (process.returncode, process.stdout, process.stderr) == (0, "", "")
    actual = np.load(out / "y.npy")
    assert actual.dtype == expected.dtype
    assert actual.tobytes() == expected.tobytes()


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_runner_answers_each_line_and_outlives_errors(bundle: Path, tmp_path: Path, name: str) -> None:
    _, runtime, file = PROGRAMS[name]
    need(runtime)
    manifest = Bundle.open(bundle).manifest
    runner = RUNTIMES[runtime].open(bundle / file, manifest, trusted=True)
    _, feeds, expected = a_case(bundle)
    for _ in range(2):
        with pytest.raises(RunFailed):
            runner.run({**feeds, "start": np.array([2**24], np.int64)})
        assert runner.run(feeds)["y"].tobytes() == expected.tobytes()
    assert (
        runner.run({**feeds, "x": feeds["x"].swapaxes(0, 1).copy().swapaxes(0, 1)})["y"].tobytes() == expected.tobytes()
    )


def test_a_runner_that_dies_says_of_what(bundle: Path) -> None:
    need("ort-cpp")
    _, feeds, _ = a_case(bundle)
    process = started(ORT, bundle, format_="onnx", device="cpu")
    process.process.send_signal(signal.SIGSEGV)
    for _ in range(2):
        with pytest.raises(RunFailed, match="the C\\+\\+ runner ended by signal SIGSEGV"):
            process(feeds, ())


NTK = {"head_dim": 16, "rope_type": "dynamic", **ROPE_TYPES["dynamic"].samples[0]}
SAME_LIBRARY = [
    ("sinusoidal", {"d_model": 16}, Spec("dynamic", "trig", "implicit", 70), {}),
    ("sinusoidal", {"d_model": 16}, Spec("dynamic", "trig", "offset", 70, "fp16"), {}),
    ("sinusoidal", {"d_model": "auto"}, Spec("dynamic", "trig", "explicit", 70), {}),
    ("rope", NTK, Spec("dynamic", "exact", "explicit", 70), {}),
    ("rope", {"head_dim": 16}, Spec("dynamic", "exact", "explicit", 70), {"rotary_op": "onnx", "opset": 23}),
    ("rope", {"head_dim": 16}, Spec("baked", "exact", "offset", 70, "fp16"), {"rotary_op": "microsoft"}),
    ("xpos", {"head_dim": 16}, Spec("dynamic", "trig", "explicit", 70, "bf16"), {}),
]
"""What need not have the eager bits: from Python and from C++ a library gives the same ones all the same."""


@pytest.mark.parametrize(("scheme", "params", "spec", "options"), one_of_each(SAME_LIBRARY, lambda one: bool(one[3])))
def test_cpp_gives_the_bits_that_python_gives(
    tmp_path: Path, scheme: str, params: dict[str, Any], spec: Spec, options: dict[str, Any]
) -> None:
    result = export_scheme(scheme, spec, params, tmp_path, validate=False, **options)
    manifest = result.manifest
    for python, cpp, file in (("ort-cpu", "ort-cpp", "model.onnx"), ("torchscript-cpu", "libtorch-cpp", "model.pt")):
        need(cpp)
        one, other = (RUNTIMES[n].open(result.folder / file, manifest, trusted=True) for n in (python, cpp))
        for golden in Bundle.open(result.folder).golden():
            if not golden.case.refused:
                expected, actual = one.run(golden.feeds), other.run(golden.feeds)
                for name, array in expected.items():
                    assert actual[name].dtype == array.dtype
                    assert actual[name].tobytes() == array.tobytes(), (cpp, golden.case.name, name)


@pytest.mark.exhaustive  # a model is exported
def test_each_graph_of_a_model_is_run_as_itself(once: Once, cli: Cli) -> None:
    """The graph of a part lies above its folder, beside the manifest of the whole."""
    need("ort-cpp")
    words = ("--max-len", "24", "-f", "onnx", "--proof", "quick", "--runtime", "ort-cpp", "-o", "t5")
    result = cli("export", "--model", str(saved(once, "t5")), *words)
    assert result.exit_code == 0, result.output
    assert "encoder_model ort-cpp" in result.output


def test_a_graph_that_is_missing_is_not_taken_from_another_bundle(bundle: Path, tmp_path: Path) -> None:
    need("ort-cpp")
    inner = tmp_path / "inner"
    shutil.copytree(bundle, tmp_path, dirs_exist_ok=True)
    shutil.copytree(bundle, inner)
    (inner / "model.onnx").unlink()
    with pytest.raises(RunFailed, match=r"model\.onnx"):
        started(ORT, inner, format_="onnx", device="cpu")
