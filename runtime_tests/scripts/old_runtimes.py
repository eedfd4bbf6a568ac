"""Which ONNX Runtime loads which opset, and does it give the bits? A script, run by hand after a change of opsets.

    python runtime_tests/scripts/old_runtimes.py write FOLDER                   # bundles of every scheme and opset
    python runtime_tests/scripts/old_runtimes.py measure FOLDER PYTHON SITE...  # for docs/reference/measured/files.md

PYTHON is an interpreter with a numpy that old releases run with, SITE a folder that one is unpacked in: pip install
--target SITE --no-deps onnxruntime==1.15.1. The release of this interpreter is measured after them, then OpenVINO, and
onnxruntime-web where NODE_PATH has it. Golden inputs go in, and out come the bits of the eager module, or what the
file's tolerance allows; calls that must be refused are.
"""

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

if TYPE_CHECKING:
    from posenc.spec import Spec
    from posenc_export.proof.judging.verdict import Verdict

Rows = dict[str, dict[str, str]]
"""What came of each file, by release."""
GOOD = ("same bits", "within its tolerance")
LOADS = "loads; from Python no bfloat16 can be given to it"
CRASHED = "ends the process"
OTHERS = ("openvino", "onnxruntime-web")
"""Runtimes that the package itself runs files on."""
MAX_LEN = 70
One = tuple[str, Mapping[str, Any], str, str | None, str]
ROPE = {"head_dim": 16}
ROPE_NTK = {**ROPE, "rope_type": "dynamic", "factor": 2.0, "max_position_embeddings": 16}
DEFAULTS: Mapping[str, One] = {
    "sinusoidal": ("sinusoidal", {"d_model": 16}, "baked", "implicit", "fp32"),
    "sinusoidal-offset": ("sinusoidal", {"d_model": 7}, "dynamic", "offset", "fp32"),
    "sinusoidal-bf16": ("sinusoidal", {"d_model": 16}, "dynamic", "implicit", "bf16"),
    "sinusoidal-fp64": ("sinusoidal", {"d_model": 16}, "dynamic", "explicit", "fp64"),
    "learned": ("learned", {"d_model": 16}, "baked", "mask", "fp32"),
    "rope-baked": ("rope", ROPE, "baked", "offset", "fp32"),
    "rope": ("rope", ROPE, "dynamic", "explicit", "fp32"),
    "rope-fp16": ("rope", ROPE, "dynamic", "implicit", "fp16"),
    "rope-bf16": ("rope", ROPE, "dynamic", "explicit", "bf16"),
    "rope-ntk": ("rope", ROPE_NTK, "dynamic", "explicit", "fp32"),
    "mrope": ("mrope", {**ROPE, "sections": (4, 2, 2)}, "dynamic", "explicit", "fp32"),
    "rope_2d-baked": ("rope_2d", ROPE, "baked", "explicit", "fp16"),
    "rope_2d": ("rope_2d", ROPE, "dynamic", "implicit", "fp32"),
    "xpos-baked": ("xpos", ROPE, "baked", "implicit", "fp32"),
    "xpos": ("xpos", ROPE, "dynamic", "mask", "fp32"),
}
"""Bundles with default options: the scheme, its parameters, mode, positions, dtype."""
SAMPLES: Mapping[str, tuple[str, int, str]] = {
    "t5_bias-baked": ("t5_bias", 0, "baked"),
    "clipped_relative-baked": ("clipped_relative", 0, "baked"),
    "decomposed_relative-baked": ("decomposed_relative", 0, "baked"),
    "transformer_xl-shift": ("transformer_xl", 2, "dynamic"),
    "conformer_relative-chunk": ("conformer_relative", 2, "baked"),
    "interpolated-baked": ("interpolated", 0, "baked"),
    "interpolated-each": ("interpolated", 2, "dynamic"),
    "sincos_2d-baked": ("sincos_2d", 0, "baked"),
    "swin_bias-baked": ("swin_bias", 0, "baked"),
    "swin_cpb-baked": ("swin_cpb", 0, "baked"),
}
"""Samples of schemes whose graphs are others than the one of their smallest: the scheme, which sample, mode."""


def files() -> dict[str, tuple[One, dict[str, Any]]]:
    """Return every bundle by name: those above, other schemes, dynamic rope at every opset, each rotary operator."""
    from posenc_export.write.formats import DEFAULT_OPSET, OPSETS

    dynamic = DEFAULTS["rope"]
    opsets = {f"rope, opset {opset}": (dynamic, {"opset": opset}) for opset in OPSETS if opset > DEFAULT_OPSET}
    ops = {f"rope, --rotary-op {op}": (dynamic, {"rotary_op": op}) for op in ("microsoft", "onnx")}
    return {**{name: (one, {}) for name, one in {**DEFAULTS, **of_samples()}.items()}, **opsets, **ops}


def of_samples() -> dict[str, One]:
    """Return the smallest sample of each scheme that has no row of its own, dynamic if it can be, and other samples."""
    from posenc.scheme import SCHEMES

    schemes_with_a_row = {one[0] for one in DEFAULTS.values()}
    modes = {s.name: "baked" if "dynamic" in s.unsupported.modes else "dynamic" for s in SCHEMES.values()}
    chosen = {**{name: (name, 0, mode) for name, mode in modes.items() if name not in schemes_with_a_row}, **SAMPLES}
    made = {name: (scheme, SCHEMES[scheme].samples[i], mode) for name, (scheme, i, mode) in sorted(chosen.items())}
    return {name: (scheme, dict(params), mode, None, "fp32") for name, (scheme, params, mode) in made.items()}


def write(folder: Path) -> None:
    """Write the bundles that are not there yet."""
    for name, (one, options) in files().items():
        if not (folder / name).exists():
            export(one, folder / name, **options)


def spec_of(one: One) -> "Spec":
    from posenc.spec import Spec

    _, _, mode, positions, dtype = one
    return Spec(mode, "exact", positions, MAX_LEN, dtype)  # type: ignore[arg-type]


def export(one: One, folder: Path, **options: Any) -> None:
    from posenc_export.proof.exporter import ExportOptions, export_target
    from posenc_export.write.targets.scheme import scheme_target

    scheme, params, *_ = one
    chosen = ExportOptions(("onnx",), validate=False, **options)
    export_target(lambda: scheme_target(scheme, spec_of(one), params, 0), chosen, folder)


def check(bundle: Path) -> str:
    """Run the golden inputs of a bundle in this process; return what came of it, in words."""
    import onnxruntime

    onnxruntime.set_default_logger_severity(4)
    try:
        session = onnxruntime.InferenceSession(str(bundle / "model.onnx"), providers=["CPUExecutionProvider"])
    except Exception as error:
        return f"does not load: {first_words(str(error))}"
    if any("bfloat16" in value.type for value in session.get_inputs()):
        return LOADS
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
    allowed = [case["eager_tolerance"], *filter(None, [manifest["artifacts"][0]["eager_tolerance"]])]
    pairs = zip(outputs, names, strict=True)
    results = {compare(out, golden[name], allowed) for out, name in pairs if f"{name}.rows" not in golden}
    return max(results, key=(*GOOD, "gives other numbers").index, default="")


def compare(output: Any, expected: Any, allowed: list[dict[str, Any]]) -> str:
    """Return how an output is beside the eager one; allowed are the tolerances of the case and of the file."""
    if output.dtype == expected.dtype and output.tobytes() == expected.tobytes():
        return GOOD[0]
    off = np.abs(output.astype(np.float64) - expected)
    peak = np.abs(expected).max(-1, keepdims=True)
    limits = [
        one["atol"] + one["rtol"] * np.abs(expected) + one["vector"] * peak + one["ulps"] * np.spacing(peak)
        for one in allowed
    ]
    return GOOD[1] if bool((off <= sum(limits)).all()) else "gives other numbers"


def first_words(error: str, most: int = 96) -> str:
    """Return what an error of ONNX Runtime says first, some characters at most, without its codes and paths."""
    text = " ".join(error.split())
    known = re.search(
        r"Opset \d+ is under development|Unsupported model IR version.*|\S+ is not a registered function", text
    )
    text = known.group(0) if known else text.rpartition(": ")[2] if text.startswith("[ONNXRuntimeError]") else text
    return text.replace("|", "/")[:most].strip(". ")


def measure(folder: Path, python: str, sites: list[str]) -> None:
    """Put the table of every bundle on every runtime into the document."""
    from scripts.compat_table import put_table

    bundles = {name: folder / name for name in files()}
    rows: Rows = {}
    for program, site in [*((python, site) for site in sites), (sys.executable, os.environ.get("PYTHONPATH", ""))]:
        environment = {**os.environ, "PYTHONPATH": site}
        version = child(program, environment, "version")
        rows[f"ONNX Runtime {version}"] = on_release(program, environment, bundles)
    for runtime in OTHERS:
        print(runtime, flush=True)
        rows[runtime] = {name: by_validation(bundle, runtime)[0] for name, bundle in bundles.items()}
    put_table(bundles, rows, note="; releases before 1.24 with numpy 1.26")


def on_release(program: str, environment: dict[str, str], bundles: Mapping[str, Path]) -> dict[str, str]:
    """Return what comes of each file in a release; where one ends its process, it alone is schemes_with_a_row of."""
    found: dict[str, str] = {}
    while len(found) < len(bundles):
        left = [name for name in bundles if name not in found]
        lines = child(program, environment, "check", *(str(bundles[name]) for name in left)).splitlines()
        found.update(zip(left, lines[:-1] if lines[-1].startswith(CRASHED) else lines, strict=False))
        if lines[-1].startswith(CRASHED):
            found[left[len(lines) - 1]] = lines[-1]
        print(environment["PYTHONPATH"], len(found), "files", flush=True)
    return found


def child(program: str, environment: dict[str, str], *args: str) -> str:
    """Run this script in another interpreter; return what it prints, and in the last line that it crashed."""
    done = subprocess.run([program, __file__, *args], env=environment, capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else f"{done.stdout}{CRASHED}, with status {done.returncode}"


def by_validation(bundle: Path, *runtimes: str, most: int = 96) -> list[str]:
    """Return what comes of a file on runtimes that the package itself runs; a reason has some characters at most."""
    import posenc_export

    verdicts = posenc_export.validate(bundle, runtimes=list(runtimes)).verdicts
    return [outcome(next(v for v in verdicts if v.subject == name), most) for name in runtimes]


def outcome(agrees: "Verdict", most: int) -> str:
    """Return a verdict in words."""
    if agrees.status != "pass":
        why = first_words(agrees.detail.partition(" at [")[0], most)
        return f"{'not run' if agrees.status == 'skip' else 'fails'}: {why}"
    compared = [one for one in agrees.comparisons if one.against == "eager"]
    return GOOD[0] if compared and all(one.max_ulp == 0 for one in compared) else GOOD[1]


def main(args: list[str]) -> None:
    if args[:1] == ["write"] and len(args) == 2:
        write(Path(args[1]))
    elif args[:1] == ["measure"] and len(args) > 2:
        measure(Path(args[1]), args[2], args[3:])
    elif args[:1] == ["check"] and len(args) > 1:
        for bundle in args[1:]:
            print(check(Path(bundle)), flush=True)
    elif args == ["version"]:
        import onnxruntime

        print(onnxruntime.__version__)
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
