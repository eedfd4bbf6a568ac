"""The page judges as `posenc validate` does: the modules and compare.py, on the same arrays, say the same."""

import json
import subprocess
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers.shared import ROOT
from posenc.encoding import SAME_BITS, Tolerance
from posenc.ports import Array, Axis, Port
from posenc_export.bundle.case import Case, GoldenCase
from posenc_export.proof.judging.compare import judge, measure
from posenc_export.proof.judging.scores import compare_scores
from posenc_export.proof.judging.verdict import Comparison
from posenc_export.proof.report.rows import figure
from posenc_export.proof.runtimes.npm import node

WEB = ROOT / "export" / "posenc_export" / "proof" / "web"
Pair = tuple[Array, Array, Tolerance]
TOLERANCES = (
    Tolerance(),
    SAME_BITS,
    Tolerance(atol=3e-7, ulps=0.5),
    Tolerance(rtol=1e-3),
    Tolerance(vector=2e-3),
    Tolerance(1e-6, 1e-4, 2.0, 1e-4),
)
MORE = 0.25
"""How much farther masked elements may be off, as judged.mjs has it."""
HALF_TIES = (0.125, 1.25, 0.03125, 2.5, 1125.0, 0.375)
"""Numbers between two of two or three digits: Python rounds them to the even digit."""


def floats() -> Iterator[Pair]:
    """Outputs that are right, off by little or much, masked, infinite, denormal or NaN, in every dtype."""
    random = np.random.default_rng(0)
    for dtype in (np.float32, np.float64, np.float16):
        exponents = random.integers(-6, 4, (2, 3, 8))
        expected: Array = (random.standard_normal((2, 3, 8)) * 10.0**exponents).astype(dtype)
        for nudge in (0.0, 1e-7, 1e-3, 0.5):
            actual = (expected * (1 + nudge * random.standard_normal(expected.shape))).astype(dtype)
            for tolerance in TOLERANCES:
                yield actual, expected, tolerance
                yield actual, expected.astype(np.float64) * (1 + 1e-5), tolerance
        for special in (np.nan, np.inf, -np.inf, np.finfo(dtype).min, np.finfo(dtype).smallest_subnormal, -0.0, 5e4):
            for other in (special, 1.0, 0.0, np.finfo(dtype).max):
                wrong, right = expected.copy(), expected.copy()
                wrong[1, 2, 3], right[1, 2, 3] = special, other
                yield wrong, right, TOLERANCES[2]
                yield wrong, right, TOLERANCES[5]
                yield right, wrong, SAME_BITS


def others() -> Iterator[Pair]:
    """Integers, flags, other shapes, other dtypes, nothing, scalars."""
    large = np.array([[2**53, 2**53 + 1, -7]], np.int64)
    for actual in (large, large + np.array([[0, 1, 0]]), large * 0):
        yield actual, large, SAME_BITS
        yield actual, large.astype(np.float64), Tolerance()
    yield np.array([True, False]), np.array([True, True]), Tolerance(atol=9.0)
    yield np.array([True, False]), np.array([True, False]), Tolerance()
    # NumPy writes what was transposed by columns
    by_columns = np.arange(2 * 3 * 4, dtype=np.float32).reshape(2, 3, 4).transpose(2, 0, 1)
    yield by_columns, by_columns.copy("C"), SAME_BITS
    yield np.asfortranarray(large.T @ large), large.T @ large, SAME_BITS
    yield by_columns, by_columns.copy("C")[::-1], SAME_BITS
    ones = np.ones((2, 4), np.float32)
    for other in (ones[:1], ones[0], ones.astype(np.float16), ones.astype(np.int32), np.float32(1)):
        yield ones, np.asarray(other), Tolerance(atol=9.0)
    for empty in (ones[:0], np.asarray(np.float32(2)), np.zeros((2, 0), np.float32)):
        yield empty, empty.copy(), Tolerance(atol=1e-9, vector=1e-9)
    for tie in HALF_TIES:
        yield ones * 0 + np.float32(tie), ones * 0, Tolerance(atol=tie / 2)


def by_python(pair: Pair, masked: Array) -> dict[str, object]:
    actual, expected, tolerance = pair
    difference = measure(actual, expected)
    judgement = judge(difference, tolerance, MORE * masked)
    measured = (difference.max_abs, difference.max_ulp, difference.peak)
    comparison = Comparison("", "y", "eager", *measured[:2], None, judgement.passed, judgement.reason, measured[2])
    return {
        "measured": [number if np.isfinite(number) else text(number) for number in measured],
        "worst": list(difference.worst),
        "same": difference.same_bits,
        "figure": figure(comparison),
        "passed": judgement.passed,
        "reason": judgement.reason,
    }


def text(number: float) -> str:
    return "NaN" if np.isnan(number) else "Infinity" if number > 0 else "-Infinity"


def judged(folder: Path) -> list[Any]:
    """Return what the modules say of the arrays in a folder."""
    script = Path(__file__).with_name("judged.mjs")
    done = subprocess.run([node(), str(script), str(WEB), str(folder)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    results: list[Any] = json.loads(done.stdout, parse_int=float)
    return results


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_the_page_judges_by_the_rules_and_in_the_words_of_validation(tmp_path: Path) -> None:
    pairs = [*floats(), *others()]
    arrays = {f"{i}/actual": pair[0] for i, pair in enumerate(pairs)}
    arrays |= {f"{i}/expected": pair[1] for i, pair in enumerate(pairs)}
    random = np.random.default_rng(1)
    shapes = [pair[0].shape if pair[0].shape == pair[1].shape and i % 2 else () for i, pair in enumerate(pairs)]
    masked = [random.random(shape) < 0.5 if shape else np.zeros((), bool) for shape in shapes]
    arrays |= {f"{i}/masked": flags for i, flags in enumerate(masked) if flags.ndim}
    np.savez(tmp_path / "pairs.npz", **arrays)  # type: ignore[arg-type]
    (tmp_path / "tolerances.json").write_text(json.dumps([asdict(pair[2]) for pair in pairs]))
    said = judged(tmp_path)
    expected = [by_python(*pair) for pair in zip(pairs, masked, strict=True)]
    assert len(said) == len(pairs) > 400
    for number, (ours, theirs) in enumerate(zip(said, expected, strict=True)):
        assert ours == theirs, f"pair {number}: {pairs[number][2]}"
    assert {result["passed"] for result in expected} == {True, False}


BHSD = (Axis("batch", "batch"), Axis("head", "heads"), Axis("seq", "length"), Axis("", "features", 8))
BSHD = (BHSD[0], BHSD[2], BHSD[1], BHSD[3])


def rotated(axes: tuple[Axis, ...], heads: int, tokens: int, seed: int) -> Array:
    """Heads of two sequences, as a graph gives them."""
    sizes = {"batch": 2, "heads": heads, "length": tokens, "features": 8}
    shape = [sizes[axis.kind] for axis in axes]
    made: Array = np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
    return made


def test_the_page_judges_scores_by_the_rules_of_validation(tmp_path: Path) -> None:
    """A model may permute features in queries and keys alike, and in no other way."""
    arrays: dict[str, Array] = {}
    calls: list[dict[str, object]] = []
    expected: list[Comparison] = []
    case = Case("c", {}, tolerance=Tolerance(1e-7), model_tolerance=Tolerance(1e-6, 1e-6, 1.0, 1e-4))
    several = ((7, (1, 1)), (7, (-1, -1)), (7, (-1, 1)))
    for axes, tried in ((BHSD, several), (BSHD, (*several, (600, (-1, -1))))):
        ports = (Port("q", axes, "float32"), Port("k", axes, "float32"))
        for tokens, (order_q, order_k) in tried:
            q, k = rotated(axes, 4, tokens, 1), rotated(axes, 2, tokens, 2)
            model = {"q": q[..., ::order_q].astype(np.float64) + 1e-9, "k": k[..., ::order_k].astype(np.float64)}
            golden = GoldenCase(case, {}, {}, {}, {}, model)
            named = {"q": q, "k": k, "q.model": model["q"], "k.model": model["k"]}
            arrays |= {f"{len(calls)}/{name}": array for name, array in named.items()}
            calls.append({"call": asdict(case), "ports": [asdict(port) for port in ports]})
            expected += compare_scores(golden, ports, {"q": q, "k": k})
    np.savez(tmp_path / "scores.npz", **arrays)  # type: ignore[arg-type]
    np.savez(tmp_path / "pairs.npz")
    (tmp_path / "tolerances.json").write_text("[]")
    (tmp_path / "scores.json").write_text(json.dumps(calls))
    said = [comparison for (comparison,) in judged(tmp_path)]
    assert [one["passed"] for one in said] == [one.passed for one in expected] == [True, True, False] * 2 + [True]
    for ours, theirs in zip(said, expected, strict=True):
        assert ours["maxAbs"] == pytest.approx(theirs.max_abs, rel=1e-9, abs=1e-15)
        assert ours["peak"] == pytest.approx(theirs.peak)
        assert ours["reason"] == theirs.reason
