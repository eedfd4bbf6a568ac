"""MNN: the bits of eager, what it answers that others refuse, and what of its own never counts as right."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

from helpers import hostile_graphs
from helpers.one_runtime import verdicts
from helpers.runner_tools import a_case
from helpers.shared import Once, need
from posenc.scheme import SCHEMES
from posenc.spec import Spec
from posenc_export.bundle.folder import Bundle
from posenc_export.proof.judging.verdict import worst
from posenc_export.proof.runtimes import RUNTIMES, Crashed, Missing, RunFailed, Runner
from posenc_export.proof.runtimes.mnn import NO_DOUBLE, NOT_CONVERTED, UNSET

ROWS = "MNN answers without an error where a position is beyond the table"
SIZES = "MNN gives no output for inputs of these sizes"


def opened(bundle: Path) -> Runner:
    need("mnn")
    return RUNTIMES["mnn"].open(bundle / "model.onnx", Bundle.open(bundle).manifest)


def put(bundle: Path, nodes: list[onnx.NodeProto], *constants: onnx.TensorProto) -> None:
    """Put a graph of the same ports in the place of model.onnx."""
    model = onnx.load(bundle / "model.onnx")
    del model.graph.node[:], model.graph.initializer[:], model.graph.value_info[:]
    model.graph.node.extend(nodes)
    model.graph.initializer.extend(constants)
    onnx.save(model, bundle / "model.onnx")


@pytest.mark.parametrize(
    "scheme",
    [
        "sincos_2d",  # its Splits had a part of size zero, and what MNN gave was what its memory held
        *(pytest.param(name, marks=pytest.mark.exhaustive) for name in ("sinusoidal", "t5_bias", "transformer_xl")),
    ],
)
def test_it_gives_the_bits_of_eager(once: Once, scheme: str) -> None:
    need("mnn")
    found = verdicts(once, scheme, Spec("dynamic", max_len=70), dict(SCHEMES[scheme].samples[0]), "mnn")
    assert found["agrees"].status == "pass", found["agrees"].detail
    eager = worst(found["agrees"].comparisons, "eager")
    assert eager is not None
    assert eager.max_abs == 0


def test_a_row_that_there_is_not_is_another_and_a_size_is_refused(bundle: Path) -> None:
    runner = opened(bundle)
    _, feeds, expected = a_case(bundle)
    # positions that the tables do not have are one and the same, of which MNN makes a row without an error
    missing = [runner.run({**feeds, "start": np.array([2**24 + ahead])})["y"] for ahead in (0, 5)]
    assert missing[0].tobytes() == missing[1].tobytes() != expected.tobytes()
    assert RUNTIMES["mnn"].lenient == ROWS
    with pytest.raises(RunFailed, match=r"^MNN counts in int32, and 'start' holds what is beyond that$"):
        runner.run({**feeds, "start": np.array([2**31])})
    with pytest.raises(RunFailed, match=f"^{SIZES}$"):
        runner.answer({**feeds, "x": feeds["x"][..., :-1]})
    assert runner.run(feeds)["y"].tobytes() == expected.tobytes()


def test_what_it_cannot_take_is_a_reason(bundle: Path) -> None:
    put(bundle, [helper.make_node("NotThere", ["x"], ["y"], domain="")])
    with pytest.raises(Missing, match=r"^MNN cannot load model.onnx: its converter has no NotThere$"):
        opened(bundle)
    double = onnx.TensorProto.DOUBLE
    put(bundle, [helper.make_node("Cast", ["x"], ["wide"], to=double), helper.make_node("Cast", ["wide"], ["y"], to=1)])
    with pytest.raises(Missing, match=f"^{NO_DOUBLE}$"):
        opened(bundle)
    (bundle / "model.onnx").write_bytes(b"\x08\x08 no model")
    with pytest.raises(RunFailed) as failure:
        opened(bundle)
    assert "\n" not in str(failure.value)


def test_memory_that_nothing_has_written_is_a_failure(bundle: Path) -> None:
    """A MatMul of as many matrices as there are rows, which MNN computes wrong after a call of a single row."""
    eye = helper.make_tensor("eye", 1, [8, 8], np.eye(8).ravel())
    put(
        bundle,
        [
            helper.make_node("Unsqueeze", ["x", "two"], ["rows"]),
            helper.make_node("Shape", ["x"], ["seq"], start=1, end=2),
            helper.make_node("Concat", ["seq", "eights"], ["sizes"], axis=0),
            helper.make_node("Expand", ["eye", "sizes"], ["matrices"]),
            helper.make_node("MatMul", ["rows", "matrices"], ["products"]),
            helper.make_node("Squeeze", ["products", "two"], ["y"]),
        ],
        *(eye, helper.make_tensor("two", 7, [1], [2]), helper.make_tensor("eights", 7, [2], [8, 8])),
    )
    runner = opened(bundle)
    x, start = np.random.default_rng(0).standard_normal((2, 5, 8), np.float32), np.array([0])
    assert runner.run({"x": x[:, :1], "start": start})["y"].tobytes() == x[:, :1].tobytes()
    with pytest.raises(RunFailed) as failure:
        runner.run({"x": x, "start": start})
    assert UNSET in str(failure.value) or "ended by signal" in str(failure.value)


def test_what_ends_its_process_is_one_line_and_no_refusal(bundle: Path) -> None:
    zero = helper.make_tensor("zero", 7, [1], [0])
    put(
        bundle,
        [
            helper.make_node("Shape", ["x"], ["seq"], start=1, end=2),
            helper.make_node("Concat", ["seq", "zero"], ["sizes"], axis=0),
            helper.make_node("Split", ["x", "sizes"], ["all", "none"], axis=1),
            helper.make_node("Neg", ["all"], ["y"]),
        ],
        zero,
    )
    _, feeds, _ = a_case(bundle)
    with pytest.raises(Crashed, match=r"^MNN ended by signal SIG[A-Z]+: it said nothing$"):
        opened(bundle).run(feeds)
    assert not RUNTIMES["mnn"].ends_process


@pytest.mark.exhaustive
@pytest.mark.parametrize("change", [hostile_graphs.overflowing, hostile_graphs.doubling, hostile_graphs.growing])
def test_hostile_graphs_end_in_a_line(bundle: Path, change: Callable[[Path], None]) -> None:
    change(bundle)
    _, feeds, _ = a_case(bundle)
    with pytest.raises((Missing, RunFailed)) as failure:
        opened(bundle).run(feeds)
    assert "\n" not in str(failure.value)


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ("[02:28:13] :220: These Op Not Support: ONNX::RotaryEmbedding \nConverted Failed!", "RotaryEmbedding"),
        ("[ERROR] Invalid ONNX Model:a/model.onnx\n[ERROR] Convert error", "Invalid ONNX Model"),
    ],
)
def test_what_its_converter_says(said: str, why: str) -> None:
    found = NOT_CONVERTED.search(said)
    assert found is not None
    assert (found["operators"] or found["error"]).strip() == why


TELLS_NOBODY = """
import sys
seen = []
tells = ("socket.", "subprocess.", "os.system")
sys.addaudithook(lambda name, args: seen.append(name) if name.startswith(tells) else None)
from pathlib import Path
from posenc_export.proof.runtimes.in_child import ChildPort
from posenc_export.proof.runtimes.mnn import opened
inputs = ChildPort("x", "float32", ()), ChildPort("start", "int64", ())
opened(Path(sys.argv[1]), inputs, (ChildPort("y", "float32", ()),))
print([name for name in sys.modules if name.startswith("MNN.tools")], seen)
"""


def test_it_installs_nothing_and_tells_nobody(bundle: Path) -> None:
    """What mnnconvert does before it converts: pip install, and a report to its maker."""
    need("mnn")
    command = [sys.executable, "-c", TELLS_NOBODY, str(bundle / "model.onnx")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "[] []\n"
