"""Which ONNX Runtime loads which opset, and does it give the bits? A script, run by hand after a change of opsets.

    python runtime_tests/old_runtimes.py write FOLDER                    # small bundles of every scheme and opset
    python runtime_tests/old_runtimes.py measure FOLDER PYTHON SITE...   # the table of docs/runtimes.md

PYTHON is an interpreter with a numpy that old releases run with, SITE a folder that one is unpacked in: pip install
--target SITE --no-deps onnxruntime==1.15.1. The release of this interpreter is measured last. In each, every file has a
process of its own: golden inputs in, and out the bits of the eager module, or what the file's tolerance allows; calls
that must be refused are.
"""

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

Rows = dict[str, dict[str, str]]
"""What came of each file, by release."""
GOOD = ("same bits", "within its tolerance")
MAX_LEN = 70
ROPE = {"head_dim": 16}
DEFAULTS: list[tuple[str, Mapping[str, Any], str, str, str]] = [
    ("sinusoidal", {"d_model": 16}, "baked", "implicit", "fp32"),
    ("sinusoidal", {"d_model": 7}, "dynamic", "offset", "fp32"),
    ("learned", {"d_model": 16}, "baked", "mask", "fp32"),
    ("rope", ROPE, "baked", "offset", "fp32"),
    ("rope", ROPE, "dynamic", "explicit", "fp32"),
    ("rope", ROPE, "dynamic", "implicit", "fp16"),
    ("mrope", {**ROPE, "sections": (4, 2, 2)}, "dynamic", "explicit", "fp32"),
    ("rope_2d", ROPE, "baked", "explicit", "fp16"),
    ("rope_2d", ROPE, "dynamic", "implicit", "fp32"),
    ("xpos", ROPE, "baked", "implicit", "fp32"),
    ("xpos", ROPE, "dynamic", "mask", "fp32"),
]
"""Bundles with default options: the scheme, its parameters, mode, positions, dtype."""


def write(folder: Path) -> None:
    """Write the bundles: of every scheme as by default, and of one at every opset and with each rotary operator."""
    from posenc_export.formats import OPSETS

    for one in DEFAULTS:
        export(one, folder / "-".join((one[0], *one[2:])))
    dynamic = DEFAULTS[4]
    for opset in OPSETS:
        export(dynamic, folder / f"opset-{opset}", opset=opset)
    for op in ("onnx", "microsoft"):
        export(dynamic, folder / f"rotary-op-{op}", rotary_op=op)


def export(one: tuple[str, Mapping[str, Any], str, str, str], folder: Path, **options: Any) -> None:
    from posenc.spec import Spec
    from posenc_export.exporter import ExportOptions, export_target
    from posenc_export.targets.scheme import scheme_target

    scheme, params, mode, positions, dtype = one
    spec = Spec(mode, "exact", positions, MAX_LEN, dtype)  # type: ignore[arg-type]
    chosen = ExportOptions(("onnx",), validate=False, **options)
    export_target(lambda: scheme_target(scheme, spec, params, 0), chosen, folder)


def check(bundle: Path) -> str:
    """Run the golden inputs of a bundle in this process; return what came of it, in words."""
    import onnxruntime

    onnxruntime.set_default_logger_severity(4)
    try:
        session = onnxruntime.InferenceSession(str(bundle / "model.onnx"), providers=["CPUExecutionProvider"])
    except Exception as error:
        return f"does not load: {first_words(str(error))}"
    manifest = json.loads((bundle / "manifest.json").read_text(encoding="utf-8"))
    results = {check_case(session, manifest, case, np.load(bundle / "golden.npz")) for case in manifest["cases"]}
    bad = sorted(results - {*GOOD, ""})
    return bad[0] if bad else next((good for good in reversed(GOOD) if good in results), "nothing is compared")


def check_case(session: Any, manifest: dict[str, Any], case: dict[str, Any], golden: Any) -> str:
    """Return what came of a case; nothing where it is refused as it must be, or golden data hold some rows of it."""
    keys = {port["name"]: f"{case['name']}/{port['name']}" for port in manifest["inputs"]}
    if not all(key in golden and f"{key}.rows" not in golden for key in keys.values()):
        return ""
    try:
        outputs = session.run(None, {name: golden[key] for name, key in keys.items()})
    except Exception as error:
        return "" if case["refused"] else f"fails in {case['name']}: {first_words(str(error))}"
    if case["refused"]:
        return f"does not refuse {case['name']}"
    names = [f"{case['name']}/{value.name}" for value in session.get_outputs()]
    allowed = manifest["artifacts"][0]["eager_tolerance"]
    pairs = zip(outputs, names, strict=True)
    results = {compare(out, golden[name], allowed) for out, name in pairs if f"{name}.rows" not in golden}
    return max(results, key=(*GOOD, "gives other numbers").index, default="")


def compare(output: Any, expected: Any, allowed: dict[str, Any] | None) -> str:
    """Return how an output is beside the eager one; allowed is what a file may differ by, None for no bit."""
    if output.dtype == expected.dtype and output.tobytes() == expected.tobytes():
        return GOOD[0]
    off = np.abs(output.astype(np.float64) - expected)
    peak = np.abs(expected).max(-1, keepdims=True)
    near = allowed is not None and bool((off <= allowed["vector"] * peak + allowed["ulps"] * np.spacing(peak)).all())
    return GOOD[1] if near else "gives other numbers"


def first_words(error: str) -> str:
    """Return what an error of ONNX Runtime says first, without its codes and paths."""
    text = " ".join(error.split())
    known = re.search(
        r"Opset \d+ is under development|Unsupported model IR version.*|\S+ is not a registered function", text
    )
    text = known.group(0) if known else text.rpartition(": ")[2] if text.startswith("[ONNXRuntimeError]") else text
    return text.replace("|", "/")[:80].strip(". ")


def measure(folder: Path, python: str, sites: list[str]) -> None:
    """Print a line for each release, and the table."""
    bundles = sorted(folder.iterdir())
    rows: Rows = {}
    for program, site in [*((python, site) for site in sites), (sys.executable, "")]:
        environment = {**os.environ, "PYTHONPATH": site}
        version = child(program, environment, "version")
        rows[version] = {bundle.name: child(program, environment, "check", str(bundle)) for bundle in bundles}
        values = list(rows[version].values())
        errors = sorted({v for v in values if v not in GOOD})
        print(
            f"{version}: {len(values)} files, {sum(not v.startswith('does not load') for v in values)} load, "
            f"{values.count('same bits')} give the same bits; {errors[0] if errors else 'no error'}",
            flush=True,
        )
    print("\n".join(["", *table(bundles, rows)]))


def child(program: str, environment: dict[str, str], *args: str) -> str:
    """Run this script in another interpreter; return what it prints, or that it crashed."""
    done = subprocess.run([program, __file__, *args], env=environment, capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else f"crashes, with status {done.returncode}"


def table(bundles: list[Path], rows: Rows) -> list[str]:
    """Return lines of Markdown: a row a release, a column an opset, or a rotary operator."""
    columns: dict[str, list[str]] = {}
    for bundle in bundles:
        manifest = json.loads((bundle / "manifest.json").read_text(encoding="utf-8"))
        op = "" if manifest["rotary_op"] == "decomposed" else f", --rotary-op {manifest['rotary_op']}"
        columns.setdefault(f"opset {manifest['opset']}, IR {manifest['ir_version']}{op}", []).append(bundle.name)
    names = sorted(columns, key=lambda name: ("rotary" in name, name))
    lines = ["| ONNX Runtime | " + " | ".join(f"{n} ({files(len(columns[n]))})" for n in names) + " |"]
    lines.append("| --- " * (len(names) + 1) + "|")
    for version, results in rows.items():
        cells = ["; ".join(sorted({results[bundle] for bundle in columns[name]})) for name in names]
        lines.append(f"| {version} | " + " | ".join(cells) + " |")
    return lines


def files(number: int) -> str:
    return f"{number} file{'s' if number > 1 else ''}"


def main(args: list[str]) -> None:
    if args[:1] == ["write"] and len(args) == 2:
        write(Path(args[1]))
    elif args[:1] == ["measure"] and len(args) > 2:
        measure(Path(args[1]), args[2], args[3:])
    elif args[:1] == ["check"] and len(args) == 2:
        print(check(Path(args[1])))
    elif args == ["version"]:
        import onnxruntime

        print(onnxruntime.__version__)
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
