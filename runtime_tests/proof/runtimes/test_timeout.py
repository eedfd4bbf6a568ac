"""A loop that never ends, in a bundle of a stranger's, is a verdict: `--timeout` ends the call that is in it."""

import json
import operator
import threading
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import posenc_export
from helpers import hostile
from helpers.endless import endless
from helpers.shared import Cli, need
from posenc.spec import Spec
from posenc_export.common.limit import NoAnswer, stop_python, within

LINE = "no answer within 0.5 s (--timeout)"


@pytest.mark.parametrize("name", ["ort-cpu", "onnx-reference", "ort-cpp"])
def test_an_endless_loop_fails_in_the_time_that_is_given(cli: Cli, bundle: Path, name: str) -> None:
    need(name)
    endless(bundle)
    threads = threading.active_count()
    result = cli("validate", str(bundle), "--json", "--timeout", "0.5", "--runtime", name)
    assert result.exit_code == 1, result.output
    rows: list[dict[str, Any]] = json.loads(result.stdout)["verdicts"]
    (row,) = [row for row in rows if (row["subject"], row["check"]) == (name, "agrees")]
    assert (row["status"], row["detail"]) == ("fail", f"batch1-seq1: {LINE}")
    assert threading.active_count() <= threads, "the call goes on"


def test_a_refusal_that_never_comes_is_none(cli: Cli, bundle: Path) -> None:
    endless(bundle)
    hostile.edit(bundle, lambda m: m.update(cases=[{**m["cases"][0], "refused": True}, m["cases"][1]]))
    result = cli("validate", str(bundle), "--timeout", "0.5", "--runtime", "ort-cpu", "-v")
    assert (result.exit_code, LINE in result.output) == (1, True), result.output


def test_the_limit_is_that_of_python_too(bundle: Path) -> None:
    endless(bundle)
    result = posenc_export.validate(bundle, runtimes=["ort-cpu"], timeout=0.5)
    assert [v.detail for v in result.verdicts if v.subject == "ort-cpu" and v.status == "fail"] == [
        f"batch1-seq1: {LINE}"
    ]


class Endless(nn.Module):
    """Goes on and on: torch.export's while_loop is a loop of Python where a program is run."""

    def forward(self, x: Tensor, start: Tensor) -> Tensor:
        def goes_on(carried: Tensor) -> Tensor:
            below: Tensor = carried.sum() < 1e9 + start.sum()
            return below

        (rest,) = torch.while_loop(goes_on, lambda carried: (carried * x[0, 0, 0],), (x[:1, :1, :1] * 0,))
        y: Tensor = x + rest + start
        return y


@pytest.mark.exhaustive
def test_a_program_of_torch_export_ends_too(tmp_path: Path) -> None:
    place = tmp_path / "b"
    spec = Spec("dynamic", positions="offset", max_len=8)
    parameters = {"d_model": 8}
    assert posenc_export.export(to=place, spec=spec, parameters=parameters, formats=["pt2"]).passed
    dim, trace = torch.export.Dim.DYNAMIC, (torch.zeros(2, 3, 8), torch.zeros(1, dtype=torch.int64))
    program = torch.export.export(Endless(), trace, dynamic_shapes=({0: dim, 1: dim}, None))
    torch.export.save(program, place / "model.pt2")
    hostile.sign(place)
    threads = threading.active_count()
    validated = posenc_export.validate(place, trust=True, runtimes=["pt2-cpu"], timeout=2)
    assert "no answer within 2 s (--timeout)" in " ".join(v.detail for v in validated.verdicts if v.status == "fail")
    assert threading.active_count() <= threads, "the call goes on"


def test_a_loop_of_python_ends() -> None:
    def spin() -> None:
        while True:
            pass

    threads = threading.active_count()
    with pytest.raises(NoAnswer):
        within(0.05, spin, stop_python)
    assert threading.active_count() == threads


def test_a_call_that_nothing_ends_is_waited_for() -> None:
    def work() -> str:
        time.sleep(0.1)
        return "done"

    assert within(0.01, work, None) == "done"
    assert within(0, threading.current_thread, lambda _: None) is threading.current_thread()


def test_what_a_call_raises_is_raised_and_what_it_stops_is_told() -> None:
    stopped: list[object] = []
    with pytest.raises(KeyError, match="that"):
        within(5, partial(operator.getitem, {}, "that"), stopped.append)
    assert stopped == []
    held = threading.Event()

    def release(_: threading.Thread) -> None:
        stopped.append("stop")
        held.set()

    with pytest.raises(NoAnswer, match=r"no answer within 0.05 s \(--timeout\)"):
        within(0.05, held.wait, release)
    assert stopped == ["stop"]


@pytest.mark.parametrize("command", ["export", "validate"])
@pytest.mark.parametrize(("seconds", "text"), [("nan", "it must be a number from 0 to"), ("-1", "is not in the")])
def test_a_time_that_is_none_is_refused_at_once(cli: Cli, command: str, seconds: str, text: str) -> None:
    result = cli(command, *(["b"] if command == "validate" else []), "--timeout", seconds)
    assert (result.exit_code, text in result.output) == (2, True), result.output


def test_0_is_no_limit(cli: Cli, bundle: Path) -> None:
    result = cli("validate", str(bundle), "--timeout", "0", "--runtime", "ort-cpu")
    assert result.exit_code == 0, result.output
