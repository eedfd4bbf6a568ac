"""Exit statuses: each that a command lists comes of it, and `cli` in conftest.py sees that no other does."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from helpers.graph_files import added_row
from helpers.inspections import FULL
from helpers.longer import ROWS, buffered
from helpers.shared import Cli
from helpers.statuses import statuses_of
from posenc_export.cli import main
from posenc_export.cli.output.helping import ALWAYS
from posenc_export.proof.cuda.plan import plans
from posenc_export.proof.cuda.prove import CudaProof
from posenc_export.proof.judging.verdict import Status, Verdict
from posenc_export.read import Inspection
from posenc_export.read import inspect as reading

Typed = Callable[[Path, pytest.MonkeyPatch], tuple[str, ...]]
SINUSOIDS = ("--dynamic", "-p", "d_model=8", "--max-len", "40", "--runtime", "ort-cpu")
UNLIKE = ("helpers.broken:MaybeEqual", "-i", "a: float32[batch, n, 8]", "-i", "b: float32[batch, m, 8]")
WEB = ("--require", "onnxruntime-web")
"""A runtime that is not there without NODE_PATH."""


def proved(bundle: Path, *words: str) -> tuple[str, ...]:
    against = ("--against", "sinusoidal", *SINUSOIDS, "--positions", "offset")
    return (str(bundle / "model.onnx"), *against, *words)


def damaged(bundle: Path) -> str:
    with (bundle / "model.onnx").open("ab") as file:
        file.write(b"!")
    return str(bundle)


def inspected(made: Inspection, *words: str) -> Typed:
    def typed(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, ...]:
        monkeypatch.setattr(reading, "_read", lambda *_: made)
        return (str(added_row(bundle)), *words)

    return typed


def extended(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, ...]:
    kinds = np.random.default_rng(0).integers(0, 2, (1, ROWS))
    return (str(buffered(bundle, token_type_ids=kinds)), "--max-len", "300", "-o", "out.onnx")


def on_cuda(status: Status) -> Typed:
    def typed(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, ...]:
        proof = CudaProof(next(iter(plans(["learned"]))), Verdict("ort-cpu", "agrees", status, "why"))
        monkeypatch.setattr("posenc_export.proof.cuda.prove.prove", lambda *_: [proof])
        return ("--device", "cpu", "--scheme", "learned", "--no-cpp", "--no-bench")

    return typed


GIVEN: dict[tuple[str, int], Typed] = {
    ("export", 1): lambda *_: (*SINUSOIDS, "-f", "onnx", "--atol", "1e-30", "--rtol", "0"),
    ("export", 3): lambda *_: (*SINUSOIDS, "-f", "onnx", *WEB),
    ("export", 4): lambda *_: (*UNLIKE, "-f", "onnx"),
    ("validate", 1): lambda bundle, _: (damaged(bundle),),
    ("validate", 3): lambda bundle, _: (str(bundle), *WEB),
    ("report", 1): lambda bundle, _: (damaged(bundle), "-o", "page.html"),
    ("report", 3): lambda bundle, _: (str(bundle), *WEB, "-o", "page.html"),
    ("serve", 3): lambda bundle, _: (str(bundle),),
    ("prove", 1): lambda bundle, _: proved(bundle, "-p", "base=7"),
    ("prove", 3): lambda bundle, _: proved(bundle, *WEB),
    ("inspect", 1): inspected(FULL),
    ("inspect", 3): inspected(
        replace(FULL, findings=(), stopped="a limit: give more with --timeout"), "--fail-above", "1"
    ),
    ("extend", 1): extended,
    ("bench", 4): lambda *_: (*UNLIKE, "--runtime", "ort-cpu", "--length", "8", "--rounds", "1"),
    ("cuda", 1): on_cuda("fail"),
    ("cuda", 3): on_cuda("skip"),
}
"""What is typed behind a command for a status of its own; those of every command have tests elsewhere."""


def test_each_list_has_what_its_command_gives() -> None:
    listed = {(name, status) for name in main.commands for status in statuses_of(name) - ALWAYS.keys() - {0}}
    assert listed == GIVEN.keys()


@pytest.mark.parametrize(("command", "status"), GIVEN)
def test_a_status_that_is_listed_is_given(
    cli: Cli, bundle: Path, monkeypatch: pytest.MonkeyPatch, command: str, status: int
) -> None:
    monkeypatch.setenv("NODE_PATH", "nowhere")
    result = cli(command, *GIVEN[command, status](bundle, monkeypatch))
    assert result.exit_code == status, result.output
