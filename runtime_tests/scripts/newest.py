"""The newest releases of what this project stands on, tried beside the pinned ones: run by .ci/run, or by hand.

python runtime_tests/scripts/newest.py              tries the newest transformers, diffusers, onnx and onnxruntime
python runtime_tests/scripts/newest.py --here       tries what is installed already: a newer torch, in an environment of its own
python runtime_tests/scripts/newest.py --write      puts a dated row into docs/newest.md

Newer releases go into a folder of their own, which comes before the environment's. torch stays: a newer one is large, and is
tried by hand. Readings, inspect, the pairing of caches in prove, and one export of each family are run; it takes two minutes.
"""

import argparse
import datetime
import os
import subprocess
import sys
import tempfile
import time
from importlib.metadata import distributions
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "newest.md"
NEWEST = ("transformers", "diffusers", "onnx", "onnxruntime")
SHOWN = ("torch", *NEWEST, "onnxruntime-gpu")
TESTS = (
    "hf/test_from_hf.py",
    "hf/test_from_hf_asked.py",
    "hf/test_unread_keys.py",
    "hf/test_published.py",
    "hf/test_asking.py",
    "proving/test_caches_of_files.py",
    "reading/recognise",
)
"""Quick tests that depend on these libraries."""
WHOLE = (
    "proving/test_whole_files.py::test_a_file_of_another_exporter_is_right_at_every_batch_length_and_past[transformers]"
)
"""A whole model, with its cache, as transformers' own exporter writes it."""
FAMILIES: tuple[tuple[str, ...], ...] = (
    ("sinusoidal", "--dynamic"),
    ("rope", "--dynamic"),
    ("alibi", "--dynamic"),
    ("t5_bias", "--dynamic"),
    ("learned", "--baked"),
    ("interpolated", "--baked"),
    ("timestep", "--dynamic"),
    ("rope", "--dynamic", "--rotary-op", "onnx"),
)
"""An export of each family, which ONNX Runtime must agree with."""
HEAD = (
    "# Newest releases\n\nFor those who want to know which releases of other libraries were tried. The pinned ones are in `constraints.txt`;\n"
    "`runtime_tests/scripts/newest.py` tries newer ones: readings, inspect, pairs of caches, an export of each family.\n\n"
    "| tried on | torch | transformers | diffusers | onnx | onnxruntime | result |\n|---|---|---|---|---|---|---|\n"
)


def versions(folder: Path | None) -> dict[str, str]:
    """Return the versions that count: those of the folder come before those of the environment."""
    paths = [str(folder), *sys.path] if folder else sys.path
    found: dict[str, str] = {}
    for one in distributions(path=paths):
        found.setdefault(one.metadata["Name"].lower(), one.version)
    return {name: found[name] for name in SHOWN if name in found}


def installed(folder: Path) -> Path:
    """Put the newest releases into a folder."""
    command = [sys.executable, "-m", "pip", "install", "-q", "--upgrade", "--target", str(folder), *NEWEST]
    subprocess.run(command, check=True)
    return folder


def tried(folder: Path | None) -> list[str]:
    """Return what failed: tests, and exports by their words; nothing where all passed."""
    own = [str(path) for path in (folder, ROOT, ROOT / "export", ROOT / "models") if path]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([*own, os.environ.get("PYTHONPATH", "")])}
    tests = [str(ROOT / "runtime_tests" / name) for name in TESTS]
    pytest = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    whole = ["-m", "exhaustive", str(ROOT / "runtime_tests" / WHOLE)]
    failed = [
        words
        for words, more in (("tests", tests), (WHOLE, whole))
        if subprocess.run([*pytest, *more], env=env).returncode
    ]
    with tempfile.TemporaryDirectory() as name:
        for family in FAMILIES:
            place = str(Path(name) / "-".join(word.strip("-") for word in family))
            export = ["export", *family, "-f", "onnx", "--runtime", "ort-cpu", "-q", "-o", place]
            if subprocess.run([sys.executable, "-m", "posenc_export", *export], env=env).returncode:
                failed.append(" ".join(family))
    return failed


def write(found: dict[str, str], failed: list[str]) -> None:
    """Put a row into the page."""
    runtime = found.get("onnxruntime") or found.get("onnxruntime-gpu", "")
    cells = [datetime.date.today().isoformat(), *(found.get(name, "") for name in SHOWN[:4]), runtime]
    text = PAGE.read_text(encoding="utf-8") if PAGE.exists() else HEAD
    PAGE.write_text(
        f"{text}| {' | '.join([*cells, 'failed: ' + ', '.join(failed) if failed else 'all passed'])} |\n",
        encoding="utf-8",
    )


def main() -> None:
    """Try the newest releases; end with status 1 where something failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--here", action="store_true", help="install nothing")
    parser.add_argument("--write", action="store_true", help="put a row into docs/newest.md")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="posenc-newest-") as name:
        folder = None if options.here else installed(Path(name))
        found, start = versions(folder), time.monotonic()
        print(", ".join(f"{library} {version}" for library, version in found.items()), flush=True)
        failed = tried(folder)
    print(
        f"{(time.monotonic() - start) / 60:.1f} minutes: {'failed: ' + ', '.join(failed) if failed else 'all passed'}"
    )
    if options.write:
        write(found, failed)
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
