"""The newest releases of what this project stands on, tried beside the pinned ones: run by .ci/run, or by hand.

python runtime_tests/scripts/newest.py            tries newer releases of transformers, diffusers, onnx and onnxruntime
python runtime_tests/scripts/newest.py --latest   tries those that are on the index today
python runtime_tests/scripts/newest.py --here     tries what is installed already, such as a newer torch
python runtime_tests/scripts/newest.py --write    puts a dated row into docs/reference/newest.md

Newer releases go into a folder of their own, which comes before the environment's. torch stays: a newer one is large,
and is tried by hand. Readings, inspect, pairs of caches in prove, and one export of each family are run.
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
from typing import Any

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "reference" / "newest.md"
NEWEST = {"transformers": "5.24.0", "diffusers": "0.42.1", "onnx": "1.23.2", "onnxruntime": "1.32.0"}
"""The newest releases that were tried: a release of tomorrow must not fail what is unchanged here."""
SHOWN = ("torch", *NEWEST, "onnxruntime-gpu")
TESTS = (
    "models/test_from_hf.py",
    "models/test_from_hf_asked.py",
    "models/test_unread_keys.py",
    "models/test_published.py",
    "models/test_asking.py",
    "proof/proving/test_caches_of_files.py",
    "read/test_models_of_transformers.py",
)
"""Quick tests that depend on these libraries."""
WHOLE = (
    "proof/proving/test_whole_files.py"
    "::test_a_file_of_another_exporter_is_right_at_every_batch_length_and_past[transformers]"
)
"""A whole model, with its cache, as transformers' own exporter writes it."""
FAMILIES: tuple[tuple[str, dict[str, Any]], ...] = (
    ("sinusoidal", {"mode": "dynamic"}),
    ("rope", {"mode": "dynamic", "head_dim": 64}),
    ("rope", {"mode": "dynamic", "head_dim": 64, "rotary_op": "onnx"}),
    ("alibi", {"mode": "dynamic", "heads": 8}),
    ("t5_bias", {"mode": "dynamic"}),
    ("learned", {"mode": "baked", "max_len": 64, "d_model": 16}),
    ("interpolated", {"mode": "baked", "grid": (4, 4), "d_model": 16}),
    ("timestep", {"mode": "dynamic"}),
)
"""An export of each family, which ONNX Runtime must agree with."""
HEAD = """# Newest releases

For those who want to know which releases of other libraries were tried. The pinned ones are in `constraints.txt`;
`runtime_tests/scripts/newest.py` tries newer ones: readings, inspect, pairs of caches, an export of each family.
`.ci/run` runs it without `--write`.

| tried on | torch | transformers | diffusers | onnx | onnxruntime | result |
|---|---|---|---|---|---|---|
"""


def versions(folder: Path | None) -> dict[str, str]:
    """Return the versions that count: those of the folder come before those of the environment."""
    paths = [str(folder), *sys.path] if folder else sys.path
    found: dict[str, str] = {}
    for one in distributions(path=paths):
        found.setdefault(one.metadata["Name"].lower(), one.version)
    return {name: found[name] for name in SHOWN if name in found}


def installed(folder: Path, latest: bool) -> Path:
    """Put the newest releases into a folder, or whatever is on the index today."""
    wanted = [name if latest else f"{name}=={version}" for name, version in NEWEST.items()]
    command = [sys.executable, "-m", "pip", "install", "-q", "--upgrade", "--target", str(folder), *wanted]
    subprocess.run(command, check=True)
    return folder


def tried(folder: Path | None) -> list[str]:
    """Return what failed: tests, or exports; nothing where all passed."""
    own = [str(path) for path in (folder, ROOT, ROOT / "export", ROOT / "models") if path]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([*own, os.environ.get("PYTHONPATH", "")])}
    tests = [str(ROOT / "runtime_tests" / name) for name in TESTS]
    pytest = ["-m", "pytest", "-q", "-p", "no:cacheprovider"]
    commands = {
        "tests": [*pytest, *tests],
        "a whole model": [*pytest, "-m", "exhaustive", str(ROOT / "runtime_tests" / WHOLE)],
        "exports": [__file__, "--exports"],
    }
    ended = {name: subprocess.run([sys.executable, *words], env=env, check=False) for name, words in commands.items()}
    return [name for name, one in ended.items() if one.returncode]


def exported() -> list[str]:
    """Return which families ONNX Runtime does not agree with, as they are exported here."""
    import posenc_export

    failed = []
    with tempfile.TemporaryDirectory() as name:
        for number, (family, settings) in enumerate(FAMILIES):
            result = posenc_export.export(
                family, to=Path(name) / str(number), formats=["onnx"], runtimes=["ort-cpu"], **settings
            )
            print(f"{family}: {'pass' if result.passed else 'FAIL'}", flush=True)
            failed += [] if result.passed else [family]
    return failed


def write(found: dict[str, str], result: str) -> None:
    """Put a row into the page."""
    runtime = found.get("onnxruntime") or found.get("onnxruntime-gpu", "")
    cells = [datetime.date.today().isoformat(), *(found.get(name, "") for name in SHOWN[:4]), runtime, result]
    text = PAGE.read_text(encoding="utf-8") if PAGE.exists() else HEAD
    PAGE.write_text(f"{text}| {' | '.join(cells)} |\n", encoding="utf-8")


def main() -> None:
    """Try the newest releases; end with status 1 where something failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--here", action="store_true", help="install nothing")
    parser.add_argument("--latest", action="store_true", help="try what is on the index today")
    parser.add_argument("--write", action="store_true", help="put a row into docs/reference/newest.md")
    parser.add_argument("--exports", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.exports:
        sys.exit(bool(exported()))
    with tempfile.TemporaryDirectory(prefix="posenc-newest-") as name:
        folder = None if options.here else installed(Path(name), options.latest)
        found, start = versions(folder), time.monotonic()
        print(", ".join(f"{library} {version}" for library, version in found.items()), flush=True)
        failed = tried(folder)
    result = f"failed: {', '.join(failed)}" if failed else "all passed"
    print(f"{(time.monotonic() - start) / 60:.1f} minutes: {result}")
    if options.write:
        write(found, result)
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
