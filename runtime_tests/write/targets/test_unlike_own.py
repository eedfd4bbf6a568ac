"""Modules of users whose inputs share a length: what eager refuses is tried, and a file that answers it is named."""

from pathlib import Path

import pytest
from torch import Tensor, nn

import posenc_export
from posenc.ports import Axis, Port, fixed
from posenc.spec import Spec
from posenc_export.bundle.case import Case
from posenc_export.proof.judging.verdict import Verdict
from posenc_export.proof.planning.eager_refusals import refused_by_eager
from posenc_export.proof.planning.plan import plan
from posenc_export.proof.planning.scope import Scope
from posenc_export.proof.running.refusals import folded, unlike_lengths_answered
from posenc_export.write.targets.module import module_target

AXES = (Axis("batch", "batch"), Axis("seq", "length"), fixed(8))
PORTS = (Port("x", AXES, "float32"), Port("y", AXES, "float32"))
X_HAS_MORE = {"x": {"seq": 5}}


class Repeats(nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return x + y


class RefusesLess(nn.Module):
    """Repeats a token of y for all of x, and none of x."""

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return x + y.expand(x.shape)


class Refuses(nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        if x.shape[1] != y.shape[1]:
            raise ValueError("x and y must have as many tokens")
        return x + y


def tried(module: nn.Module) -> list[Case]:
    encoding = module_target(module, PORTS, Spec(max_len=32), {}, 0).encoding
    planned = plan(Scope(encoding, {"batch": 2, "seq": 11}, 32)).cases
    kept = refused_by_eager(encoding, planned, 0).cases
    assert [case for case in kept if not case.unlike] == [case for case in planned if not case.unlike]
    return [case for case in kept if case.unlike]


@pytest.mark.parametrize(("module", "refused"), [(Repeats, 0), (RefusesLess, 2), (Refuses, 4)])
def test_what_eager_refuses_is_tried(module: type[nn.Module], refused: int) -> None:
    cases = tried(module())
    assert len(cases) == refused
    assert all(case.refused for case in cases)


def test_a_module_is_not_called_before_it_is_recorded() -> None:
    calls: list[Tensor] = []

    class Counts(Repeats):
        def forward(self, x: Tensor, y: Tensor) -> Tensor:
            calls.append(x)
            self.seen = len(calls)
            return super().forward(x, y)

    module = Counts()
    tried(module)
    assert calls
    assert not hasattr(module, "seen")


def test_answers_are_a_note_beside_what_is_refused() -> None:
    case = Case("far", {"seq": 1}, refused=True, unlike=X_HAS_MORE)
    note = unlike_lengths_answered("ort-cpu", case)
    row = Verdict("ort-cpu", "refusal", "pass", "another: an error")
    (both,) = folded([note, row])
    assert (both.status, both.detail) == ("pass", row.detail)
    assert "x with 5 of seq where the others have 1" in both.note
    (alone,) = folded([note])
    assert alone.status == "skip"
    assert alone.detail == both.note
    assert folded([row]) == [row]


@pytest.mark.exhaustive
def test_a_file_that_repeats_a_token_is_named_and_does_not_fail(tmp_path: Path) -> None:
    formats, runtimes = ["onnx", "torchscript"], ["ort-cpu", "torchscript-cpu"]
    result = posenc_export.export(
        Refuses(), inputs=PORTS, to=tmp_path / "out", formats=formats, runtimes=runtimes, max_len=32
    )
    assert result.passed
    rows = {v.subject: v for v in result.verdicts if v.check == "refusal"}
    assert "must have as many tokens" in rows["torchscript-cpu"].detail
    assert rows["ort-cpu"].status == "skip"
    assert rows["ort-cpu"].detail.count(" where the others have ") == 4
    again = posenc_export.validate(tmp_path / "out", runtimes=["ort-cpu"])
    assert next(v for v in again.verdicts if v.check == "refusal").detail == rows["ort-cpu"].detail
