"""What `posenc bench` times where nobody says a length: as far as a graph goes, and no further."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import posenc_export
from helpers.shared import Cli
from posenc.ports import BATCH, SEQ, Axis, Mask, Port, Positions, Start, fixed
from posenc.scheme import SCHEMES
from posenc.spec import Spec
from posenc_export.bundle.case import Case
from posenc_export.bundle.folder import Bundle
from posenc_export.bundle.manifest import Manifest
from posenc_export.common.arrays import call_on_arrays
from posenc_export.common.errors import BadInput
from posenc_export.proof.benchmarks import BenchOptions
from posenc_export.proof.benchmarks.contenders import Contender
from posenc_export.proof.benchmarks.lengths import lengths_of, max_length_of, sizes_of_call
from posenc_export.proof.benchmarks.workers import Round
from posenc_export.write.targets.feeds import feeds_for
from posenc_export.write.targets.scheme import scheme_target

TIMING = BenchOptions(batch=2, heads=2)
SHORT = replace(SEQ, most=40)
BAKED = [name for name in SCHEMES if "baked" not in SCHEMES[name].unsupported.modes]


@pytest.mark.parametrize(
    ("port", "length"),
    [
        (Port("x", (BATCH, SEQ, fixed(8)), "float32"), None),
        (Port("x", (BATCH, SHORT, fixed(8)), "float32"), 40),
        (Port("p", (BATCH, SEQ), "int64", Positions(end=30)), 30),
        (Port("p", (fixed(3), BATCH, SEQ), "int64", Positions(end=30, ends=(30, 20, 10))), 30),
        (Port("m", (BATCH, SEQ), "int64", Mask(offset=2, end=32)), 30),
        (Port("m", (BATCH, SEQ), "int64", Mask()), None),
        (Port("s", (fixed(1),), "int64", Start(end=50)), None),
        (Port("b", (BATCH, Axis("past+seq", "length", most=40)), "float32"), 20),
        (Port("t", (BATCH,), "int64", Positions(end=1000)), None),
    ],
    ids=lambda value: "" if value is None else str(value),
)
def test_how_long_a_call_may_be_follows_from_the_ports(port: Port, length: int | None) -> None:
    assert max_length_of((port,), TIMING) == length


@pytest.mark.parametrize("name", BAKED)
def test_a_baked_encoding_takes_a_call_of_that_length(name: str) -> None:
    target = scheme_target(name, Spec(max_len=24), dict(SCHEMES[name].samples[0]), 0)
    ports = (*target.encoding.inputs, *target.encoding.outputs)
    length = max_length_of(ports, TIMING)
    case = Case("bench", sizes_of_call(ports, length or 5, TIMING))
    feeds = feeds_for(tuple(target.encoding.inputs), case, 0)
    assert call_on_arrays(target.encoding.module, list(feeds.values()))


@pytest.fixture
def manifest(small_bundle: Path) -> Manifest:
    return Bundle.open(small_bundle).manifest


def of_table(manifest: Manifest, rows: int) -> Manifest:
    """Return the manifest of a table of so many rows."""
    inputs = tuple(replace(port, axes=tuple(_ending(axis, rows) for axis in port.axes)) for port in manifest.inputs)
    return replace(manifest, mode="baked", max_len=rows, inputs=inputs)


def _ending(axis: Axis, rows: int) -> Axis:
    return replace(axis, most=rows) if axis.is_length else axis


def test_lengths_that_nobody_gave_lie_in_the_table(manifest: Manifest) -> None:
    assert lengths_of(manifest, BenchOptions()) == (512, 2048, 8192)
    assert lengths_of(of_table(manifest, 2048), BenchOptions()) == (512, 2048)
    assert lengths_of(of_table(manifest, 40), BenchOptions()) == (40,)
    assert lengths_of(of_table(manifest, 40), BenchOptions(lengths=(8, 40))) == (8, 40)


def test_a_length_beyond_the_table_is_one_line_that_says_what_to_give(manifest: Manifest) -> None:
    with pytest.raises(BadInput) as error:
        lengths_of(of_table(manifest, 40), BenchOptions(lengths=(8, 41)))
    assert error.value.message == "length 41 is beyond the 40 rows of the table: give --length 40 or less"


@contextmanager
def untimed(contenders: Sequence[Contender], length: int, timing: BenchOptions) -> Iterator[dict[str, Round]]:
    """Stand for the processes that time contenders: each round takes a second, and no test waits for it."""
    yield {contender.name: lambda: 1.0 for contender in contenders}


def test_a_baked_bundle_is_timed_without_a_word_on_lengths(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("posenc_export.proof.benchmarks.run.workers", untimed)
    bundle = ["-p", "d_model=8", "-p", "scale_x=2.0", "--max-len", "40", "-f", "onnx", "--no-validate", "-o", "b"]
    assert cli("export", "-q", *bundle).exit_code == 0
    result = cli("bench", "b", "--runtime", "ort-cpu")
    assert result.exit_code == 0, result.output
    assert "    40  ort-cpu" in result.output
    assert "words: x a copy = how many times as long as a copy" in result.output
    result = cli("bench", "b", "--max-len", "99")
    line = "--max-len is for SCHEME: a bundle is timed as it was written"
    assert (result.exit_code, line in result.output) == (2, True), result.output
    with pytest.raises(BadInput, match="max_len is for a scheme: a bundle is timed as it was written"):
        posenc_export.bench(Path("b"), max_len=99)
    made = posenc_export.bench(Path("b"), runtimes="ort-cpu")
    assert "    40  ort-cpu" in str(made)
    assert repr(made) == "<BenchResult: 'sinusoidal', baked, at 40>"


def test_a_table_from_a_file_is_timed_as_far_as_it_goes(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("posenc_export.proof.benchmarks.run.workers", untimed)
    np.save("w.npy", np.ones((40, 8), np.float32))
    words = ["bench", "learned", "-p", "weights=w.npy", "--runtime", "ort-cpu"]
    assert "    40  ort-cpu" in cli(*words).output
    assert "    20  ort-cpu" in cli(*words, "--max-len", "20").output
    result = cli(*words, "--length", "41")
    assert (result.exit_code, "max_len must be at most the 40 rows of w.npy, got 41" in result.output) == (2, True)


def test_what_has_no_lengths_is_timed_once(manifest: Manifest) -> None:
    fixed_alone = replace(manifest, inputs=(), outputs=(Port("y", (BATCH, fixed(8)), "float32"),))
    assert lengths_of(fixed_alone, BenchOptions()) == (1,)
    assert lengths_of(fixed_alone, BenchOptions(lengths=(8, 9))) == (8,)


@pytest.mark.exhaustive
def test_a_baked_bundle_is_timed_from_python(tmp_path: Path) -> None:
    posenc_export.export(d_model=8, max_len=40, formats="onnx", to=tmp_path / "b", validate=False)
    result = posenc_export.bench(tmp_path / "b", rounds=1, runtimes="ort-cpu")
    assert [one.length for one in result.lengths] == [40]
