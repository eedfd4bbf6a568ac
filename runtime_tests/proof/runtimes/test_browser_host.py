"""The process that drives a browser: what hangs, crashes or is killed in it, and what it serves to whom."""

import http.client
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from helpers.endless import endless
from helpers.runner_tools import a_case
from helpers.shared import Cli, need, with_tests
from posenc_export.bundle.folder import Bundle
from posenc_export.proof.runtimes import RUNTIMES, Crashed, Missing, RunFailed, Runner
from posenc_export.proof.runtimes.browser.client import client
from posenc_export.proof.runtimes.browser.server import PageServer, serving


def opened(bundle: Path, name: str = "browser-wasm") -> Runner:
    need(name)
    return RUNTIMES[name].open(bundle / "model.onnx", Bundle.open(bundle).manifest)


def descendants(pid: int) -> Iterator[tuple[int, str]]:
    """Yield the processes that a process has started, and theirs, each with its command line."""
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        yield int(child), Path(f"/proc/{child}/cmdline").read_text().replace("\0", " ")
        yield from descendants(int(child))


def kill_in_browser(kind: str) -> None:
    """Kill the processes of a kind in the browser of this process."""
    found = [pid for pid, words in descendants(client().process.process.pid) if f"--type={kind}" in words]
    assert found
    for pid in found:
        os.kill(pid, signal.SIGKILL)


def wait_until(holds: Callable[[], bool]) -> None:
    for _ in range(300):
        if holds():
            return
        time.sleep(0.1)
    pytest.fail("it never holds")


def test_a_call_that_hangs_ends_and_the_next_bundle_runs(cli: Cli, bundle: Path, small_bundle: Path) -> None:
    need("browser-wasm")
    kept = opened(small_bundle)
    _, feeds, expected = a_case(small_bundle)
    endless(bundle)
    threads = threading.active_count()
    result = cli("validate", str(bundle), "--json", "--timeout", "2", "--runtime", "browser-wasm")
    assert result.exit_code == 1, result.output
    rows: list[dict[str, Any]] = json.loads(result.stdout)["verdicts"]
    (row,) = [row for row in rows if (row["subject"], row["check"]) == ("browser-wasm", "agrees")]
    assert (row["status"], row["detail"]) == ("fail", "batch1-seq1: no answer within 2 s (--timeout)")
    assert threading.active_count() <= threads, "the call goes on"
    assert kept.run(feeds)["y"].tobytes() == expected.tobytes(), "a graph that was loaded before is loaded again"


@pytest.mark.exhaustive
@pytest.mark.apart
def test_a_stranger_s_bundle_runs_in_a_browser_although_the_memory_is_bounded(
    cli: Cli, bundle: Path, small_bundle: Path
) -> None:
    need("browser-wasm")
    endless(bundle)
    slow = cli("validate", str(bundle), "--timeout", "3", "--runtime", "browser-wasm", "-v")
    assert (slow.exit_code, "no answer within 3 s (--timeout)" in slow.output) == (1, True), slow.output
    good = cli("validate", str(small_bundle), "--require", "browser-wasm")
    assert good.exit_code == 0, good.output


def test_a_page_that_crashes_is_one_line_and_the_next_call_is_answered(bundle: Path) -> None:
    runner = opened(bundle)
    _, feeds, expected = a_case(bundle)
    kill_in_browser("renderer")
    wait_until(lambda: _is_answered(runner, feeds))
    assert runner.run(feeds)["y"].tobytes() == expected.tobytes()


@pytest.mark.exhaustive
def test_a_gpu_process_that_crashes_is_one_line_and_the_next_call_is_answered(bundle: Path) -> None:
    runner = opened(bundle, "browser-webgpu")
    _, feeds, expected = a_case(bundle)
    assert runner.run(feeds)["y"].tobytes() == expected.tobytes()
    kill_in_browser("gpu-process")
    wait_until(lambda: _is_answered(runner, feeds))
    assert runner.run(feeds)["y"].tobytes() == expected.tobytes()


def _is_answered(runner: Runner, feeds: Any) -> bool:
    """Return whether a call is answered; each that is not is a crash of one line."""
    words = "".join(_crashes(runner, feeds))
    assert "\n" not in words
    return not words


def _crashes(runner: Runner, feeds: Any) -> Iterator[str]:
    try:
        runner.run(feeds)
    except Crashed as crash:
        yield str(crash)


PARENT = """
import sys
from pathlib import Path
from posenc_export.bundle.folder import Bundle
from posenc_export.proof.runtimes import RUNTIMES
from posenc_export.proof.runtimes.browser.client import client
folder = Path(sys.argv[1])
runner = RUNTIMES["browser-wasm"].open(folder / "model.onnx", Bundle.open(folder).manifest)
print(client().process.process.pid, client().process.scratch.name, flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, pytest.param(signal.SIGTERM, marks=pytest.mark.exhaustive)])
def test_whoever_is_killed_leaves_no_browser_and_no_files(small_bundle: Path, number: signal.Signals) -> None:
    need("browser-wasm")
    words = [sys.executable, "-c", PARENT, str(small_bundle)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=with_tests()) as parent:
        assert parent.stdout is not None
        host, _, scratch = parent.stdout.readline().strip().partition(" ")
        started = [pid for pid, _ in descendants(int(host))]
        parent.send_signal(number)
    assert len(started) > 2
    wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in (host, *started)))
    assert not Path(scratch).exists()


def test_a_damaged_file_is_one_line(bundle: Path) -> None:
    (bundle / "model.onnx").write_bytes((bundle / "model.onnx").read_bytes()[:1000])
    with pytest.raises(RunFailed) as failure:
        opened(bundle)
    assert "\n" not in str(failure.value)


def test_what_is_missing_has_its_name(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("posenc_export.proof.runtimes.browser.chromium.check_package", lambda *_: None)
    monkeypatch.setenv("PATH", "")
    monkeypatch.setenv("NODE_PATH", str(tmp_path))
    monkeypatch.delenv("CHROME_PATH", raising=False)
    with pytest.raises(Missing, match=r"^no Chromium is found: install one, or set CHROME_PATH to it"):
        RUNTIMES["browser-wasm"].check()
    monkeypatch.setenv("CHROME_PATH", str(tmp_path / "none"))
    with pytest.raises(Missing, match=r"^CHROME_PATH is .*none, and no such file exists"):
        RUNTIMES["browser-wasm"].check()
    monkeypatch.setenv("CHROME_PATH", sys.executable)
    with pytest.raises(Missing, match=r"onnxruntime-web is not found in NODE_PATH"):
        RUNTIMES["browser-wasm"].check()


# ---- the server ------------------------------------------------------------------------------------------------------


@pytest.fixture
def server(tmp_path: Path) -> Iterator[PageServer]:
    (tmp_path / "dist").mkdir()
    (tmp_path / "dist" / "ort.wasm.min.mjs").write_text("// library")
    (tmp_path / "dist" / "ort.js.map").write_text("{}")
    (tmp_path / "arrays").mkdir()
    (tmp_path / "secret.npy").write_text("secret")
    with serving(tmp_path / "dist", tmp_path / "arrays") as made:
        yield made


def fetch(server: PageServer, path: str, method: str = "GET", host: str = "", body: bytes = b"") -> Any:
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=5)
    connection.request(method, path, body or None, {"Host": host or server.door.hosts[0]})
    return connection.getresponse()


def test_a_page_gets_what_it_needs_and_is_isolated(server: PageServer) -> None:
    base = f"/{server.door.token}"
    for name in ("host.html", "web/npy.mjs", "web/session.mjs", "web/page.mjs", "ort/ort.wasm.min.mjs"):
        answer = fetch(server, f"{base}/{name}")
        assert answer.status == 200
        assert answer.headers["Cross-Origin-Opener-Policy"] == "same-origin"
        assert answer.headers["Cross-Origin-Embedder-Policy"] == "require-corp"
    for name in ("x", "past_key_values.0.key"):
        assert fetch(server, f"{base}/arrays/{name}.npy", "PUT", body=b"bytes").status == 204
        assert fetch(server, f"{base}/arrays/{name}.npy").read() == b"bytes"


@pytest.mark.parametrize(
    ("path", "host"),
    [
        ("/host.html", ""),
        ("/wrong/host.html", ""),
        ("/TOKEN/host.html", "attacker.example"),
        ("/TOKEN/host.html", "localhost"),
        ("/TOKEN/ort/ort.js.map", ""),
        ("/TOKEN/ort/../../secret.npy", ""),
        ("/TOKEN/arrays/../secret.npy", ""),
        ("/TOKEN/arrays/..npy", ""),
        ("/TOKEN/arrays/%2e%2e%2fsecret.npy", ""),
        ("/TOKEN/model/1", ""),
        ("/TOKEN/", ""),
        ("/", ""),
    ],
)
def test_nothing_else_is_served(server: PageServer, path: str, host: str) -> None:
    place = path.replace("TOKEN", server.door.token)
    assert fetch(server, place, host=host).status == 404
    assert fetch(server, place, "PUT", host, b"bytes").status == 404


def test_only_this_machine_is_answered(server: PageServer) -> None:
    assert server.server_address[0] == "127.0.0.1"
