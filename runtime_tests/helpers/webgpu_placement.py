"""Which nodes onnxruntime-web's WebGPU provider leaves to the CPU, as its own log says: no list is asked."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from os import PathLike
from pathlib import Path
from shutil import copyfile
from threading import Thread

from playwright.sync_api import Page, sync_playwright

from posenc_export.proof.runtimes.browser.chromium import find_chromium, launch
from posenc_export.proof.runtimes.npm import package
from posenc_export.write.formats.onnx.compatibility import WEB

PAGE = """<script type="module">
import * as ort from "/dist/ort.webgpu.min.mjs";
ort.env.logLevel = "verbose";
window.place = async () => {
  const bytes = new Uint8Array(await (await fetch("/model.onnx")).arrayBuffer());
  const options = {executionProviders: ["webgpu"], logSeverityLevel: 0, graphOptimizationLevel: "disabled"};
  await (await ort.InferenceSession.create(bytes, options)).release();
};
window.ready = true;
</script>"""
TYPES = {".mjs": "text/javascript", ".wasm": "application/wasm"}
LEFT = re.compile(r"webgpu kernel not found in registries for Op type: \w+ node name: (\S+)")


class Isolated(SimpleHTTPRequestHandler):
    """Serves a folder to a page that may use threads."""

    def guess_type(self, path: str | PathLike[str]) -> str:
        return TYPES.get(Path(path).suffix) or super().guess_type(path)

    def end_headers(self) -> None:
        self.send_header("Cross-Origin-Opener-Policy", "same-origin")
        self.send_header("Cross-Origin-Embedder-Policy", "require-corp")
        super().end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def left_by_webgpu(files: list[Path], folder: Path) -> list[set[str]]:
    """Return the names of the nodes for which WebGPU has no kernel, of each file; a folder for what is served."""
    (folder / "dist").symlink_to(package("onnxruntime-web", WEB) / "dist")
    (folder / "page.html").write_text(PAGE, encoding="utf-8")
    found = []
    with _served(folder) as address, sync_playwright() as playwright:
        browser = launch(playwright, find_chromium())
        for file in files:
            copyfile(file, folder / "model.onnx")
            page = browser.new_page()
            found.append(set(LEFT.findall(_log(page, address))))
            page.close()
        browser.close()
    return found


def _log(page: Page, address: str) -> str:
    """Return what a session says while it is made."""
    lines: list[str] = []
    page.on("console", lambda message: lines.append(message.text))
    page.goto(f"{address}/page.html")
    page.wait_for_function("window.ready === true")
    page.evaluate("place()")
    return "\n".join(lines)


@contextmanager
def _served(folder: Path) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Isolated, directory=str(folder)))
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
