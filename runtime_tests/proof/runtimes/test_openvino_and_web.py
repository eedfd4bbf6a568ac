"""OpenVINO and onnxruntime-web: the bits of eager, what they refuse, and what they are not asked to do."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from helpers.one_runtime import SPECS, verdicts, verdicts_of
from helpers.runner_tools import a_case
from helpers.samples import Parameters
from helpers.shared import Cli, Once, need, one_of_each, written_once
from posenc.scheme import SCHEMES
from posenc.spec import DType, Spec
from posenc_export.bundle.folder import Bundle
from posenc_export.proof.judging.verdict import Verdict, worst
from posenc_export.proof.runtimes import RUNTIMES, TAKES_LONGER, Missing, RunFailed
from posenc_export.proof.runtimes.onnxruntime_web import NO_HALF
from posenc_export.proof.runtimes.openvino import CUTS

NAMES = ("openvino", "onnxruntime-web")
ONNX = ["-f", "onnx", "-p", "d_model=8", "--max-len", "40"]


@pytest.mark.parametrize(("scheme", "spec", "params"), one_of_each(SPECS, lambda _: ""))
def test_they_give_the_bits_of_eager_or_say_why_not(once: Once, scheme: str, spec: Spec, params: Parameters) -> None:
    for name in NAMES:
        need(name)
    bundle = written_once(once, scheme, spec, params)
    for name in NAMES:
        check_agrees(name, verdicts_of(bundle, name)["agrees"], scheme, spec, params)


def check_agrees(name: str, agrees: Verdict, scheme: str, spec: Spec, params: Parameters) -> None:
    """Hold a verdict of one of these runtimes against what is known of it."""
    by_length = (params.get("rope_type"), spec.mode) == ("dynamic", "dynamic")
    divided = scheme in ("sine_2d", "dinov3") and spec.mode == "dynamic"  # places, by the size of their grid
    if name == "openvino" and (by_length or divided):
        assert (agrees.status, "float64" in agrees.detail) == ("skip", True)
        return
    assert agrees.status == "pass", agrees.detail
    eager = worst(agrees.comparisons, "eager")
    assert eager is not None
    if by_length or spec.mode in SCHEMES[scheme].sums:  # no bits are promised
        return
    divides = scheme == "xpos"  # a key by its scale
    assert (eager.max_abs == 0) == (RUNTIMES[name].same_bits or not divides)


def test_an_output_that_is_a_look_up_alone_has_its_name(once: Once) -> None:
    need("openvino")
    spec = Spec("baked", positions="explicit", max_len=40)
    found = verdicts(once, "timestep", spec, {"dim": 8, "steps": "int"}, "openvino")
    assert (found["agrees"].status, found["agrees"].detail) == ("pass", found["agrees"].detail)


@pytest.mark.parametrize("name", one_of_each(NAMES, lambda _: ""))
@pytest.mark.parametrize("dtype", one_of_each(["fp16", "bf16", "fp64"], lambda _: ""))
def test_other_dtypes_agree_or_are_refused(once: Once, name: str, dtype: DType) -> None:
    need(name)
    spec = Spec("dynamic", "exact", "explicit", 70, dtype)
    agrees = verdicts(once, "rope", spec, {"head_dim": 16}, name)["agrees"]
    reasons = {
        ("openvino", "fp64"): "OpenVINO computes on CPUs in float32 what is float64 in this graph",
        ("onnxruntime-web", "bf16"): NO_HALF,
        ("openvino", "bf16"): CUTS,
    }
    reason = reasons.get((name, dtype))
    assert (agrees.status, agrees.detail) == ("skip" if reason else "pass", reason or agrees.detail)


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", NAMES)
def test_masks_and_offsets(once: Once, name: str) -> None:
    need(name)
    for positions in ("mask", "offset"):
        spec = Spec("dynamic", "exact", positions, 70)
        found = verdicts(once, "sinusoidal", spec, {"d_model": 16}, name)
        assert found["agrees"].status == "pass", found
        beyond = positions == "offset"  # a mask beyond the end is too large to be tried, one of another length is
        assert found["refusal"].status == ("skip" if beyond and RUNTIMES[name].lenient else "pass")


@pytest.mark.parametrize("name", NAMES)
def test_a_call_that_is_refused_is_one_line_and_the_next_one_is_answered(bundle: Path, name: str) -> None:
    need(name)
    runner = RUNTIMES[name].open(bundle / "model.onnx", Bundle.open(bundle).manifest)
    _, feeds, expected = a_case(bundle)
    for _ in range(2):
        try:
            rows = runner.run({**feeds, "start": np.array([2**24], np.int64)})
            assert RUNTIMES[name].lenient
            assert (rows["y"] == feeds["x"]).all()
        except RunFailed as refusal:
            refused = str(refusal)
            assert "indices element out of data bounds" in refused
            assert "\n" not in refused
        assert runner.run(feeds)["y"].tobytes() == expected.tobytes()
    swapped = np.asfortranarray(feeds["x"])
    assert runner.run({**feeds, "x": swapped})["y"].tobytes() == expected.tobytes()


@pytest.mark.parametrize("name", NAMES)
def test_a_file_that_is_damaged_is_one_line(bundle: Path, name: str) -> None:
    need(name)
    (bundle / "model.onnx").write_bytes((bundle / "model.onnx").read_bytes()[:1000])
    with pytest.raises(RunFailed) as failure:
        RUNTIMES[name].open(bundle / "model.onnx", Bundle.open(bundle).manifest)
    assert str(failure.value)
    assert "\n" not in str(failure.value)


@pytest.mark.exhaustive
def test_they_run_where_they_are_named_or_all_is_to_be_proved(cli: Cli) -> None:
    for words, asked in (([], False), (["--require", "ort-cpu"], False), (["--prove"], True)):
        report = json.loads(cli("export", *ONNX, *words, "--json", "--force").stdout)
        rows = {row["subject"]: row for row in report["verdicts"] if row["check"] == "agrees"}
        for name in NAMES:
            try:
                RUNTIMES[name].check()
            except Missing as missing:
                reason = str(missing)
            else:
                reason = "" if asked else TAKES_LONGER
            assert rows[name]["status"] == ("skip" if reason else "pass")
            assert rows[name]["detail"] == (reason or rows[name]["detail"])


REPORTS_NOTHING = """
import sys
seen = []
sys.addaudithook(lambda name, args: seen.append(name) if name.startswith(("socket.", "subprocess.")) else None)
from pathlib import Path
from posenc_export.bundle.folder import Bundle
from posenc_export.proof.runtimes import RUNTIMES
folder = Path(sys.argv[1])
del seen[:]
RUNTIMES["openvino"].open(folder / "model.onnx", Bundle.open(folder).manifest)
assert "openvino" in sys.modules
print([name for name in sys.modules if name.startswith("openvino_telemetry")], seen)
"""


def test_openvino_tells_nobody_that_it_was_run(bundle: Path) -> None:
    need("openvino")
    command = [sys.executable, "-c", REPORTS_NOTHING, str(bundle)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "[] []\n"


def test_web_is_looked_for_where_node_path_says_and_not_beside_a_bundle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    beside = tmp_path / "node_modules" / "onnxruntime-web"
    beside.mkdir(parents=True)
    (beside / "package.json").write_text("{}")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NODE_PATH", os.pathsep.join(["", "nowhere"]))
    monkeypatch.setattr("posenc_export.proof.runtimes.onnxruntime_web.node", lambda: "node")
    with pytest.raises(Missing, match=r"not found in NODE_PATH: npm install --prefix DIR onnxruntime-web@\d"):
        RUNTIMES["onnxruntime-web"].check()
    monkeypatch.setenv("NODE_PATH", str(beside.parent))
    RUNTIMES["onnxruntime-web"].check()


def test_without_node_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(Missing, match=r"^node is not found: install Node"):
        RUNTIMES["onnxruntime-web"].check()


def test_a_web_runner_that_dies_says_of_what(bundle: Path) -> None:
    need("onnxruntime-web")
    from posenc_export.proof.runtimes.onnxruntime_web import started

    _, feeds, _ = a_case(bundle)
    process = started(bundle / "model.onnx")
    process.process.send_signal(signal.SIGKILL)
    with pytest.raises(RunFailed, match="node ended by signal SIGKILL"):
        process(feeds, ())
