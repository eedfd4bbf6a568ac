"""Pages of the documents as plays: what they show is done in order.

`python runtime_tests/helpers/pages.py PAGE...` writes what comes out of that into them. What is of this
machine stays as a page has it: which runtimes are not here, and how many ran. The scratch folder is cut from paths.
"""

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from helpers import reader_models
from helpers.preloaded import command_folder
from helpers.reader_models import WRITERS

ROOT = Path(__file__).parents[2]
FENCED = re.compile(r'^```(\w+)(?: title="(.*?)")?\n(.*?)^```', flags=re.MULTILINE | re.DOTALL)
COUNTS = re.compile(r"^passed: agrees on \d+ runtimes?, all \d+ checks?(; [\w ]+ not run)?", flags=re.MULTILINE)
"""How a report's headline begins, where all that could run agreed: the numbers are those of a machine."""


@dataclass(frozen=True)
class Block:
    """A fenced block of a page: its language, the file that it is where it has a title, and what is in it."""

    language: str
    title: str
    text: str


@dataclass(frozen=True)
class Scene:
    """A command or a program of a page, what the page shows of its output, and what it printed."""

    what: str
    shown: str
    printed: str


def blocks(page: str) -> list[Block]:
    return [Block(*one) for one in FENCED.findall((ROOT / page).read_text(encoding="utf-8"))]


def commands(console: str) -> list[tuple[str, str]]:
    """Return the commands of a console block, each with the output that is shown below it."""
    shown = re.split(r"^\$ ", console, flags=re.MULTILINE)[1:]
    return [(command.strip(), output) for command, _, output in (one.partition("\n") for one in shown)]


def run(words: list[str], folder: Path, *, preloaded: bool = False) -> str:
    """Run a command as a user does for whom no runner has been built yet; return what it prints.

    Args:
        words: The command.
        folder: Where it runs.
        preloaded: Whether its Python is a process that has loaded the libraries before.
    """
    places = [*([command_folder()] if preloaded else []), Path(sys.executable).parent, os.environ["PATH"]]
    env = {**os.environ, "PATH": ":".join(map(str, places)), "XDG_CACHE_HOME": str(folder / "cache")}
    env["CMAKE_BUILD_TYPE"] = "None"  # half the time of a build
    done = subprocess.run(words, cwd=folder, env=env, capture_output=True, text=True, check=False, timeout=900)
    assert done.returncode == 0, f"{words[-1]}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def play(page: str, folder: Path) -> Iterator[Scene]:
    """Do in a folder what a page shows, in its order: write its titled files, run its programs and commands.

    The README's processes are new ones, as its readers have them.
    """
    preloaded = page != "README.md"
    shutil.copy(ROOT / "runtime_tests" / "data" / "configs" / "llama-3.1-8b.json", folder / "config.json")
    give(page, folder)
    shown = blocks(page)
    for block, after in zip(shown, [*shown[1:], Block("", "", "")], strict=True):
        if block.title:
            (folder / block.title).parent.mkdir(parents=True, exist_ok=True)
            (folder / block.title).write_text(block.text)
        elif block.language == "python":
            (folder / "program.py").write_text(block.text)
            printed = run(["python", "program.py"], folder, preloaded=preloaded)
            yield Scene(block.text, after.text if after.language == "text" else "", printed)
        elif block.language == "console":
            for command, output in commands(block.text):
                yield Scene(command, output, run(["bash", "-c", command], folder, preloaded=preloaded))


def give(page: str, folder: Path) -> None:
    """Put into a folder what a page takes of its reader: a file of another exporter, a model's folder."""
    text = (ROOT / page).read_text(encoding="utf-8")
    if "your.onnx" in text:
        name = "llama.transformers.exporters.onnx"
        with tarfile.open(ROOT / "runtime_tests" / "foreign_files" / "llama.tar.xz") as archive:
            archive.extract(name, folder, filter="data")
        (folder / name).rename(folder / "your.onnx")
    for name in WRITERS:
        if name in text:
            run([sys.executable, str(Path(reader_models.__file__)), name], folder)


def comparable(output: str) -> list[str]:
    """Return what is the same on every machine: neither rows of CUDA, nor what does not run, nor how many those are."""
    lines = [line.rstrip() for line in output.splitlines() if not is_local(line)]
    return [re.sub(COUNTS, "all passed", _without_last_digits(line)) for line in lines if line]


def _without_last_digits(line: str) -> str:
    """Return a line without what follows from how a processor rounds: errors of some ulps, and where they are.

    With AVX2 alone PyTorch sums in another order than with AVX-512.
    """
    line = re.sub(r"\b\d(\.\d+)?e-0[4-9]\b( at position [\d,]+)?", "some ulps", line)
    return re.sub(r" {2,}", "  ", line)


def is_local(line: str) -> bool:
    """Return whether a line of a report is of this machine: what did not run here, or a row of CUDA."""
    return line.startswith("not run:") or line.partition(" ")[0].endswith("-cuda")


def for_page(scene: Scene, folder: Path) -> str:
    """Return what a page is to show of a scene: what was printed, with the page's own lines on machines."""
    local = [line for line in scene.shown.splitlines() if is_local(line)]
    counts = COUNTS.search(scene.shown)
    lines: list[str] = []
    for line in scene.printed.replace(f"{folder}/", "").splitlines():
        if is_local(line):
            if line.startswith("not run:"):  # the page's own lines stand where those of this machine would
                lines += local
                local = []
            continue
        has_counts = bool(COUNTS.match(line))
        lines.append(COUNTS.sub(counts[0], line) if counts and has_counts else line.rstrip())
    return "".join(f"{line}\n" for line in [*lines, *local])


def write(page: str) -> None:
    """Put what comes out of a page's programs and commands into it, in the place of what it shows."""
    path = ROOT / page
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        for scene in play(page, folder):
            if scene.shown.strip() and comparable(scene.printed) != comparable(scene.shown):
                text = path.read_text(encoding="utf-8")
                path.write_text(text.replace(scene.shown, for_page(scene, folder), 1), encoding="utf-8")


if __name__ == "__main__":
    for name in sys.argv[1:]:
        write(name)
