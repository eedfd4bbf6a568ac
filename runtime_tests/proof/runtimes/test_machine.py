"""What the machine lacks, or the tool does wrong, is status 5 in one line: never a verdict on a file that is good."""

import errno
import os
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from helpers.bundles import sign
from helpers.shared import Cli
from posenc_export.common.errors import check_machine
from posenc_export.proof.exporter import write

SMALL = ["-p", "d_model=8", "--max-len", "40", "-f", "onnx", "--runtime", "ort-cpu"]
FULL = OSError(errno.ENOSPC, "No space left on device")
ERRORS = [MemoryError(), FULL, RecursionError("too deep"), RuntimeError("DefaultCPUAllocator: can't allocate memory")]


def raising(error: Exception) -> Callable[..., None]:
    def fail(*_: object, **__: object) -> None:
        raise error

    return fail


def caused_by(error: Exception) -> Exception:
    """An error as libraries raise it over another one."""
    made = ValueError("something failed")
    made.__cause__ = error
    return made


@pytest.mark.parametrize("error", [*ERRORS, caused_by(FULL)], ids=repr)
@pytest.mark.parametrize("place", ["posenc_export.proof.runtimes.within", "posenc_export.proof.checks.graph.read_onnx"])
def test_no_graph_fails_for_the_machine(
    cli: Cli, bundle: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, place: str
) -> None:
    monkeypatch.setattr(place, raising(error))
    result = cli("validate", str(bundle), "--runtime", "ort-cpu")
    assert (result.exit_code, result.output.count("\n")) == (5, 1), result.output
    kind = type(error.__cause__ or error).__name__
    assert result.output.startswith(f"Error: {kind}: "), result.output


@pytest.mark.parametrize("error", ERRORS, ids=repr)
@pytest.mark.parametrize(
    "place", ["torch.onnx.export", "numpy.savez", "torch.export.export", "pathlib.Path.write_bytes"]
)
@pytest.mark.exhaustive
def test_no_export_fails_for_the_machine(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, error: Exception, place: str
) -> None:
    monkeypatch.setattr(place, raising(error))
    result = cli("export", *SMALL, "-f", "torchscript")
    assert (result.exit_code, result.output.count("\n"), list(Path().iterdir())) == (5, 1, []), result.output


def test_other_errors_are_about_what_was_given() -> None:
    for error in (ValueError("no such row"), OSError(errno.ENOENT, "no file"), caused_by(KeyError("x"))):
        check_machine(error)


def test_own_files_that_cannot_be_read_back_are_the_tools_fault(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(write, "write_golden", lambda folder, _: (folder / "golden.npz").write_bytes(b"PK\3\4 none"))
    result = cli("export", *SMALL)
    text = "what was written cannot be read back: "
    assert (result.exit_code, text in result.output, result.output.count("\n")) == (5, True, 1), result.output
    assert list(Path().iterdir()) == []


def test_a_strangers_golden_data_that_cannot_be_read_are_bad_input(cli: Cli, bundle: Path) -> None:
    (bundle / "golden.npz").write_bytes(b"PK\3\4 none")
    sign(bundle, "golden.npz")
    result = cli("validate", str(bundle), "--runtime", "ort-cpu")
    assert (result.exit_code, "golden.npz is damaged" in result.output, result.output.count("\n")) == (2, True, 1)


@pytest.mark.exhaustive
@pytest.mark.parametrize("format_", ["onnx", "torchscript", "pt2", "header"])
def test_files_that_may_not_be_so_long_are_status_5(tmp_path: Path, format_: str) -> None:
    """TorchScript and torch.export end the whole process where their own writers find no room."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))

    words = [sys.executable, "-m", "posenc_export", "export", "-p", "d_model=64", "-f", format_, "-o", "b"]
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, check=False, env=environment, preexec_fn=limit)
    assert (done.returncode, done.stderr.count(b"\n"), list(tmp_path.iterdir())) == (5, 1, []), done.stderr


@pytest.mark.parametrize("words", [["nonsense"], ["sinusodial"], ["--atol", "nan"], ["-o", "."], ["-o", "/proc/b"]])
def test_what_cannot_be_is_refused_before_torch_is_loaded(tmp_path: Path, words: list[str]) -> None:
    code = "import sys; from posenc_export.cli import main; main(sys.argv[1:], standalone_mode=False)"
    report = f"import atexit, sys; atexit.register(lambda: print('torch' in sys.modules)); {code}"
    done = subprocess.run(
        [sys.executable, "-c", report, "export", *words], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (1, "False\n"), done.stderr  # an error is raised: not standalone
    assert "BadInput" in done.stderr or "BadParameter" in done.stderr


def test_the_nearest_runtime_and_format_are_named(cli: Cli) -> None:
    assert "did you mean 'ort-cpu'?" in cli("export", "--runtime", "ort_cpu").output
    assert "did you mean 'torchscript'?" in cli("export", "-f", "torch-script").output
    assert "did you mean 'onnx-reference'?" in cli("validate", "b", "--require", "onnx-ref").output
    assert "did you mean" not in cli("export", "--runtime", "xyzzy").output
