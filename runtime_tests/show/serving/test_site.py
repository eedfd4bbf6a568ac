"""The page of a bundle as static files, and the command that writes or serves it."""

from __future__ import annotations

import hashlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from helpers.bundles import edit, put
from helpers.hosts import any_host
from helpers.served import made_library
from helpers.shared import Cli, need
from helpers.visits import visited
from posenc_export.show.serving.library import Library
from posenc_export.show.serving.site import HEADERS

if TYPE_CHECKING:
    from playwright.sync_api import Browser


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Library:
    return made_library(tmp_path_factory.mktemp("npm") / "onnxruntime-web")


def contents(folder: Path) -> dict[str, bytes]:
    """Return every file of a folder by its path."""
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_a_site_has_the_page_and_all_that_it_takes(cli: Cli, small_bundle: Path, library: Library) -> None:
    words = ("serve", str(small_bundle), "--ort-web", str(library.folder), "--site", "a site")
    result = cli(*words)
    assert result.exit_code == 0, result.output
    site = Path("a site")
    files = contents(site)
    size = sum(map(len, files.values()))
    assert f"wrote a site: {size:,} bytes" in result.output
    listed = [file["file"] for key in ("artifacts", "files") for file in _manifest(small_bundle)[key]]
    for name in ("manifest.json", *listed):
        assert files[f"bundle/{name}"] == (small_bundle / name).read_bytes()
    assert "bundle/report.json" not in files
    of_library = {f"ort/{name}" for name in (*library.files, "LICENSE")}
    assert of_library | {"_headers", "README.txt", "index.html"} <= files.keys()
    assert b"Copyright (c) Microsoft Corporation" in files["ort/LICENSE"]
    assert all(name in files["_headers"].decode() for name in HEADERS)
    # written again it replaces itself, and nothing that this tool did not write
    assert cli(*words).exit_code == 0
    assert contents(site) == files
    (site / "mine.txt").write_text("mine")
    refused = cli(*words)
    assert (refused.exit_code, "mine.txt" in refused.output) == (2, True)
    assert contents(site).keys() == {*files, "mine.txt"}


def _manifest(bundle: Path) -> dict[str, list[dict[str, str]]]:
    manifest: dict[str, list[dict[str, str]]] = json.loads((bundle / "manifest.json").read_text())
    return manifest


def test_what_cannot_be_served_or_written_is_one_line(cli: Cli, bundle: Path, library: Library) -> None:
    chosen = ("--ort-web", str(library.folder))
    Path("empty").mkdir()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        wrong = {
            ("empty", *chosen): "is not a bundle",
            ("nothing", *chosen): "is not a bundle",
            (str(bundle), "--ort-web", "empty"): "is not the npm package onnxruntime-web",
            (str(bundle), *chosen, "--port", port): f"cannot serve on port {port}: another program has it",
            (str(bundle), *chosen, "--port", "70000"): "Invalid value for '--port'",
            (str(bundle), *chosen, "--port", "1", "--site", "s"): "give one of them",
            (str(bundle), *chosen, "--site", str(bundle)): "is a bundle, which no site replaces",
            (str(bundle), *chosen, "--site", "."): "the current folder",
        }
        for words, text in wrong.items():
            result = cli("serve", *words)
            assert (result.exit_code, text in result.output) == (2, True), result.output
    assert [path.name for path in Path("empty").iterdir()] == []
    assert not Path("s").exists()
    (library_file := library.file("ort.webgpu.min.mjs")).rename(library_file.with_suffix(".gone"))
    try:
        result = cli("serve", str(bundle), *chosen)
        assert "without dist/ort.webgpu.min.mjs" in result.output
    finally:
        library_file.with_suffix(".gone").rename(library_file)
    edit(bundle, put("torchscript", "artifacts", 0, "format"))
    assert "has no ONNX file, which browsers run" in cli("serve", str(bundle), *chosen).output


def test_without_onnxruntime_web(cli: Cli, bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NODE_PATH", "nowhere")
    result = cli("serve", str(bundle))
    assert result.exit_code == 3
    assert "onnxruntime-web is not found in NODE_PATH: npm install" in result.output
    assert "or give its folder with --ort-web" in result.output


def test_a_file_that_is_not_as_listed_makes_no_site(cli: Cli, bundle: Path, library: Library) -> None:
    content = (bundle / "golden.npz").read_bytes()
    (bundle / "golden.npz").write_bytes(content[:-1] + b"x")
    words = ("serve", str(bundle), "--ort-web", str(library.folder), "--site", "site")
    result = cli(*words)
    assert (result.exit_code, "golden.npz is not as the manifest lists it" in result.output) == (2, True)
    (bundle / "golden.npz").write_bytes(content)
    digest = hashlib.sha256(content).hexdigest()
    stranger = {"file": "../outside.txt", "bytes": 1, "sha256": digest}
    edit(bundle, put([stranger, *_manifest(bundle)["files"]], "files"))
    assert cli(*words).exit_code == 2
    assert not Path("site").exists()
    assert [path.name for path in Path().iterdir() if path.name.startswith(".site")] == []


@pytest.mark.exhaustive
def test_any_host_shows_a_site_and_it_is_proved(chromium: Browser, cli: Cli, small_bundle: Path) -> None:
    need("browser-wasm")
    assert cli("serve", str(small_bundle), "--site", "site").exit_code == 0
    with any_host(Path("site")) as address, visited(chromium, address) as visit:
        assert visit.page.evaluate("crossOriginIsolated") is False
        visit.prove()
        assert visit.status == "done: 2 agreed"
        assert visit.said == []
        assert all(url.startswith(address) for url in visit.asked)
    result = cli("validate", "site/bundle")
    assert result.exit_code == 0, result.output


@pytest.mark.exhaustive
@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_it_is_ended_from_outside(small_bundle: Path, library: Library, number: signal.Signals, status: int) -> None:
    words = [sys.executable, "-P", "-c", "from posenc_export.cli import main; main()"]
    words += ["serve", str(small_bundle), "--ort-web", str(library.folder)]
    how = {
        "stdout": subprocess.PIPE,
        "stderr": subprocess.PIPE,
        # the shell that runs tests may have it ignored
        "preexec_fn": lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    }
    with subprocess.Popen(words, text=True, env={**os.environ}, **how) as process:  # type: ignore[call-overload]
        line = process.stdout.readline()
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/[\w-]{43}/ shows .*, until Ctrl-C\n", line)
        process.send_signal(number)
        out, err = process.communicate(timeout=30)
    assert (process.returncode, out) == (status, "")
    assert err == ("stopped\n" if number == signal.SIGINT else "")
