"""Modules as people write them: writing into inputs, float32 on the way, fixed sizes, complex numbers."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from helpers import idioms
from helpers.own_encodings import encoding_of
from helpers.shared import Cli, one_of_each
from posenc.ports import Array
from posenc_export.bundle.case import Case, GoldenCase
from posenc_export.bundle.folder import Bundle
from posenc_export.common.errors import BadInput, NoReference
from posenc_export.proof.judging.verdict import Comparison, Verdict
from posenc_export.proof.recording.record import CaseRecord, GoldenCases, record
from posenc_export.proof.report.report import headline
from posenc_export.write.inputs.ports import parse_ports
from posenc_export.write.targets.feeds import feeds_for
from posenc_export.write.targets.float64 import Widening, call_in_float64

X = "x: float32[batch, seq, 8]"


def recorded(module: nn.Module, *ports: str, **sizes: int) -> CaseRecord:
    """One case of a module as it is recorded."""
    (one,) = record(encoding_of(module, *ports), [Case("case", sizes)], 0).records
    return one


def in_float64(module: nn.Module, *inputs: Array) -> list[Array]:
    return call_in_float64(module.double(), inputs)


NUMBERS = np.random.default_rng(0).standard_normal((2, 5, 8))


@pytest.mark.parametrize("module", [idioms.WritesIntoInput(), idioms.WritesIntoSlice(), idioms.Doubles()])
def test_a_module_that_writes_into_its_input_is_fed_a_copy(module: nn.Module) -> None:
    one = recorded(module, X, batch=2, seq=5)
    fed = feeds_for(parse_ports((X,)), Case("case", {"batch": 2, "seq": 5}), 0)["x"]
    assert one.written == ("x",)
    assert one.golden.feeds["x"].tobytes() == fed.tobytes()
    expected = type(module)()(torch.from_numpy(fed.copy())).numpy()
    np.testing.assert_array_equal(one.golden.eager["y"], expected)
    np.testing.assert_allclose(one.golden.reference["y"], expected, 1e-6)


def test_a_module_that_only_reads_writes_into_nothing() -> None:
    assert recorded(idioms.FloatInside(), X, batch=2, seq=5).written == ()


def test_float32_on_the_way_is_float64_in_the_reference() -> None:
    (actual,) = in_float64(idioms.FloatInside(), NUMBERS)
    angles = np.outer(np.arange(5), 1 / 10000 ** (np.arange(0, 8, 2) / 8))
    both = np.concatenate([angles, angles], -1)
    expected = NUMBERS * np.cos(both) + NUMBERS[..., ::-1] * np.sin(both)
    assert actual.dtype == np.float64
    np.testing.assert_allclose(actual, expected, 0, 1e-14)


def test_factories_of_float32_are_widened() -> None:
    (actual,) = in_float64(idioms.Factories(), NUMBERS)
    np.testing.assert_allclose(actual, NUMBERS + 1.6 + 0.5, 0, 1e-14)


def test_a_cast_to_half_rounds_nothing_in_the_reference() -> None:
    (actual,) = in_float64(idioms.HalfInside(), NUMBERS)
    np.testing.assert_allclose(actual, NUMBERS / 3 * 2, 0, 1e-15)


def test_a_table_that_is_no_buffer_is_widened_and_written_into() -> None:
    (actual,) = in_float64(idioms.PlainTable(), NUMBERS)
    np.testing.assert_array_equal(actual, NUMBERS + np.array([1, 1, 1, 1, 0, 0, 0, 0]))


def test_complex_numbers_on_the_way_are_of_128_bits() -> None:
    module = idioms.ComplexInside()
    turns = module.turns.numpy().astype(np.complex128)
    (actual,) = in_float64(module, NUMBERS)
    expected = (NUMBERS[..., ::2] + 1j * NUMBERS[..., 1::2]) * turns[:5]
    np.testing.assert_allclose(actual[..., ::2], expected.real, 0, 1e-14)
    np.testing.assert_allclose(actual[..., 1::2], expected.imag, 0, 1e-14)


def test_integers_and_flags_stay_what_they_are() -> None:
    whole, flags = in_float64(idioms.Integers(), np.arange(3))
    assert whole.tolist() == [2**53 + 1, 2**53 + 2, 2**53 + 3]
    assert flags.tolist() == [False, True, True]


@pytest.mark.parametrize(
    ("module", "reason"),
    [
        (idioms.ReadsBits(), r"^aten\.view\.dtype \(it reads the bits of numbers"),
        (idioms.RefusesFloat64(), r"^ValueError: expected float32$"),
        (idioms.SaysMuch(), r"^TypeError: <object object at 0x\.\.\.> takes float32( alone){20,40}.{0,6}\.\.\.$"),
    ],
)
def test_what_does_not_run_in_float64_has_no_reference_and_says_why(module: nn.Module, reason: str) -> None:
    with pytest.raises(NoReference, match=reason):
        in_float64(module, NUMBERS)
    assert torch.get_default_dtype() == torch.float32
    one = recorded(module, X, batch=1, seq=3)
    assert one.golden.reference == {}
    assert one.no_reference


def test_an_operator_that_calls_functions_is_not_widened() -> None:
    widening = Widening()
    with pytest.raises(TypeError):
        widening.__torch_dispatch__(torch.ops.higher_order.cond, ())
    assert widening.failed == "cond (it calls functions, which are not widened)"


def test_words_of_a_reference_claim_none_that_is_not_there() -> None:
    good, bad = (CaseRecord(GoldenCase(Case(name, {}), {}), no_reference=why) for name, why in (("a", ""), ("b", "op")))
    refused = CaseRecord(GoldenCase(Case("c", {}, refused=True), {}))
    assert GoldenCases((good, refused)).reference("itself") == "itself"
    assert GoldenCases((bad, refused)).reference("itself") == "no reference: op"
    assert GoldenCases((bad, good)).reference("itself") == "itself; no reference in 1 of 2 cases: op"


def test_a_manifest_that_claims_a_reference_of_which_there_is_nothing_is_not_believed(small_bundle: Path) -> None:
    manifest = Bundle.open(small_bundle).manifest
    of_eager = Comparison("case", "y", "eager", 0.0, 0.0, None, True)
    both = (of_eager, replace(of_eager, against="reference"))
    lines = [headline(manifest, [Verdict("ort-cpu", "agrees", "pass", "", some)]) for some in ((of_eager,), both, ())]
    assert lines[0].endswith("; no reference: the golden data hold none")
    assert lines[1] == lines[2]
    assert lines[1].endswith(f"; compared with {manifest.reference}")


def test_integers_alone_have_no_reference() -> None:
    one = recorded(idioms.Integers(), "ids: int64[batch, seq] < 9", batch=1, seq=3)
    assert one.no_reference == "its outputs are integers or flags, which must be equal"


@pytest.mark.parametrize(
    ("module", "ports", "output"),
    [
        (idioms.CutsToSquare(), ("x: float32[batch, h, w]",), "y: float32[batch, y_axis1, y_axis2]"),
        (idioms.AtLeastFour(), (X,), "y: float32[batch, y_axis1, 8]"),
        (idioms.OneSequence(), (X,), "y: float32[1, seq, 8]"),
        (idioms.Affine(), ("x: float32[]",), "y: float32[]"),
        (idioms.Affine(), ("x: float32[1, 10, 8]",), "y: float32[1, 10, 8]"),
    ],
)
def test_an_output_has_the_axes_that_it_has_at_every_size(
    module: nn.Module, ports: tuple[str, ...], output: str
) -> None:
    assert [str(port) for port in encoding_of(module, *ports).outputs] == [output]


@pytest.mark.parametrize(
    ("module", "reason"),
    [
        (idioms.ComplexOutput(), "the module's output is complex64, .* return torch.view_as_real of it"),
        (idioms.BytesOutput(), "the module's output 1 is uint8: expected one of float32, "),
        (idioms.SparseOutput(), "the module's output is sparse_coo: return its to_dense"),
        (idioms.LosesBatch(), "the module returns other outputs at another length"),
    ],
)
def test_outputs_that_no_graph_has_are_refused_in_words(module: nn.Module, reason: str) -> None:
    with pytest.raises(BadInput, match=reason):
        encoding_of(module, X)


def test_an_output_of_another_size_than_it_had_is_refused_in_words() -> None:
    encoding = encoding_of(idioms.OddFrom30(), X)
    with pytest.raises(BadInput, match=r"gives y: float32\[batch, seq, 8\] of the shape \(1, 32, 8\) at case"):
        record(encoding, [Case("case", {"batch": 1, "seq": 33})], 0)


EXPORTED = [
    ("Affine", ("x: float32[]",), ("onnx", "torchscript", "pt2"), ""),
    ("WritesIntoInput", (X,), ("onnx", "torchscript", "pt2"), "the module writes into x, in place"),
    ("FloatInside", (X,), ("onnx",), ""),
    ("ComplexInside", (X,), ("onnx",), ""),
    ("CutsToSquare", ("x: float32[batch, h, w]",), ("onnx",), "torch.export assumed"),
    ("SumAndProduct", ("x: float32[2, 4]", "y: float32[2, 4]"), ("onnx", "pt2"), ""),
    ("AddsRowsFrom", ("x: float32[1, 10, 8]", "start: int64[1] start"), ("onnx",), ""),
]


@pytest.mark.parametrize(("name", "ports", "formats", "note"), one_of_each(EXPORTED, lambda one: 0))
def test_idioms_are_exported_with_a_reference(
    cli: Cli, name: str, ports: tuple[str, ...], formats: tuple[str, ...], note: str
) -> None:
    flags = [part for port in ports for part in ("-i", port)] + [part for one in formats for part in ("-f", one)]
    result = cli("export", f"helpers.idioms:{name}", *flags, "--max-len", "40", "--json", "-o", "b")
    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout)
    assert report["reference"] == "the module run in float64"
    assert any(line.startswith(note) for line in report["notes"]) if note else not report["notes"]
    assert {c["against"] for v in report["verdicts"] for c in v["comparisons"]} == {"eager", "reference"}
    assert cli("validate", "b", "--trust").exit_code == 0


def test_where_there_is_no_reference_nothing_claims_one(cli: Cli) -> None:
    result = cli("export", "helpers.idioms:ReadsBits", "-i", "x: float32[2, 8]", "-f", "pt2", "--json", "-o", "b")
    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout)
    text = "no reference: aten.view.dtype (it reads the bits of numbers, which are others in float64)"
    assert report["reference"] == text
    assert report["headline"].endswith(f"; {text}")
    assert f"; {text}\n" in Path("b/report.md").read_text(encoding="utf-8")
    assert Bundle.open(Path("b")).manifest.reference == text
    assert "module run in float64" not in Path("b/report.md").read_text(encoding="utf-8")
