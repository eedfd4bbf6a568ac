"""The C++ header: its bits through the harness and what it refuses, what it takes to break it."""

import json
import shutil
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from helpers.combinations import MAX_LEN, POSITIONS, combinations, family_of, run
from helpers.cpp_tools import LAST, written
from helpers.shared import Cli
from posenc.rope_types import ROPE_TYPES
from posenc.scheme import SCHEMES
from posenc.spec import Spec
from posenc_export.bundle.folder import MANIFEST, Bundle, sha256
from posenc_export.common.errors import BadInput
from posenc_export.proof.judging.verdict import ValidateOptions, worst
from posenc_export.proof.running.run import validate_bundle
from posenc_export.proof.runtimes import RUNTIMES, RunFailed
from posenc_export.write.formats import FORMATS
from posenc_export.write.formats.header.functions import FUNCTIONS
from posenc_export.write.targets.scheme import scheme_target

# ---- through the harness ---------------------------------------------------------------------------------------------


ROWS_HOLD_NONE = {
    ("section_layout", "features"),
    ("layout", "axis_tiled"),
    ("layout", "axis_halves"),
    ("centered", (1, 2)),
}
"""Parameters of rotations that no row of a table holds: test_rope_nd_refusals.py has what a header says of them."""


def each_way() -> Iterator[Any]:
    """The smallest sample of each scheme in both modes, with positions given in every way, in float32."""
    for scheme, mode, way in product(SCHEMES, ("baked", "dynamic"), POSITIONS):
        yield pytest.param(
            scheme,
            Spec(mode, "exact", way, MAX_LEN),  # type: ignore[arg-type]
            SCHEMES[scheme].samples[0],
            id=f"{scheme}-{mode}-{way}",
            marks=pytest.mark.exhaustive,
        )


def supported() -> Iterator[Any]:
    """Each of those whose rows a header holds, and of the combinations that all runtimes are asked."""
    tried = {(one.values[0], one.values[1], str(one.values[2])) for one in combinations()}
    more = (one for one in each_way() if (one.values[0], one.values[1], str(one.values[2])) not in tried)
    for one in (*combinations(), *more):
        scheme, spec, params = one.values
        held = scheme not in ("xpos", "dinov3", "rope_layers", "rope_mixed") and not ROWS_HOLD_NONE & {*params.items()}
        if held and spec.method == "exact" and spec.dtype in ("fp32", "fp64"):
            by_length = ROPE_TYPES[str(params.get("rope_type", "default"))].by_length
            held = family_of(scheme, spec, params) in FUNCTIONS
            if held and (spec.mode == "baked" or not by_length):
                yield one


@pytest.mark.parametrize(("scheme", "spec", "params"), list(supported()))
def test_the_header_has_the_eager_bits(tmp_path: Path, scheme: str, spec: Spec, params: dict[str, Any]) -> None:
    result = run(scheme, spec, params, tmp_path, formats=("header", "header-c99"), validate=False)
    verdicts = validate_bundle(Bundle.open(result.folder, trusted=True), ValidateOptions())
    assert [(v.subject, v.check, v.detail) for v in verdicts if v.status == "fail"] == []
    agreements = [v for v in verdicts if v.check == "agrees" and v.status == "pass"]
    assert [v.subject for v in agreements] == ["header-cpp", "header-c"]
    for agreement in agreements:
        difference = worst(agreement.comparisons, "eager")
        assert difference is not None
        assert difference.max_abs == 0
    if any(case.refused and not case.unlike for case in result.manifest.cases):
        assert [v.status for v in verdicts if v.check == "refusal"] == ["pass", "pass"]


@pytest.mark.exhaustive
def test_the_header_and_onnx_runtime_agree_to_the_last_position(tmp_path: Path) -> None:
    for scheme in ("sinusoidal", "rope"):
        spec = Spec("dynamic", "exact", "explicit", MAX_LEN)
        result = run(scheme, spec, SCHEMES[scheme].samples[0], tmp_path / scheme, formats=("header", "onnx"))
        assert not result.failed, result.verdicts
        assert {"header-cpp", "ort-cpu"} <= {v.subject for v in result.verdicts if v.check == "agrees"}
        assert max(case.max_position for case in result.manifest.cases if not case.refused) == LAST


@pytest.mark.parametrize("edit", ["low_cos", "mid_sin", "high_cos"])
def test_a_damaged_table_is_caught(tmp_path: Path, edit: str) -> None:
    spec = Spec("dynamic", "exact", "explicit", MAX_LEN)
    result = run("sinusoidal", spec, {"d_model": 4}, tmp_path, formats=("header",))
    path = result.folder / "model.hpp"
    before, head, table = path.read_text().partition(f"{edit}[")
    rows = table.split("},\n")
    rows[33] = rows[33].replace("{0x1.", "{0x1.0", 1).replace("{-0x1.", "{-0x1.0", 1)
    path.write_text(before + head + "},\n".join(rows))
    manifest = json.loads((result.folder / MANIFEST).read_text())
    manifest["artifacts"][0] |= {"bytes": path.stat().st_size, "sha256": sha256(path)}
    (result.folder / MANIFEST).write_text(json.dumps(manifest))
    verdicts = {v.check: v for v in validate_bundle(Bundle.open(result.folder, trusted=True), ValidateOptions())}
    assert verdicts["integrity"].status == "pass"
    assert verdicts["agrees"].status == "fail"


def test_a_header_of_other_ports_does_not_load(tmp_path: Path) -> None:
    bundles = [
        run("sinusoidal", Spec(max_len=MAX_LEN), {"d_model": width}, tmp_path / str(width), formats=("header",)).folder
        for width in (4, 6)
    ]
    shutil.copy(bundles[0] / "model.hpp", bundles[1])
    manifest = Bundle.open(bundles[1]).manifest
    with pytest.raises(RunFailed, match=r"model\.hpp does not compile: .*not a header of these ports"):
        RUNTIMES["header-cpp"].open(bundles[1] / "model.hpp", manifest, trusted=True)


@pytest.mark.parametrize(("runtime", "file"), [("header-cpp", "model.hpp"), ("header-c", "model.h")])
def test_a_file_of_somebody_else_is_one_line(tmp_path: Path, runtime: str, file: str) -> None:
    formats = (RUNTIMES[runtime].format,)
    folder = run("sinusoidal", Spec(max_len=MAX_LEN), {"d_model": 4}, tmp_path, formats=formats, validate=False).folder
    (folder / file).write_text("int rows;\n")
    with pytest.raises(RunFailed, match=f"^{file} is no header of posenc-export$"):
        RUNTIMES[runtime].open(folder / file, Bundle.open(folder).manifest, trusted=True)


def test_without_a_compiler_nothing_is_run(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler -O1")
    args = ["export", "-p", "d_model=8", "--max-len", "40", "-f", "header"]
    monkeypatch.setenv("CC", "no-such-cc")
    shown = " ".join(cli(*args, "-f", "header-c99").output.split())
    assert "no C++ compiler: no-such-compiler not found; set CXX" in shown
    assert "no C compiler: no-such-cc not found; set CC" in shown
    result = cli(*args, "--require", "header-cpp", "-o", "other")
    assert (result.exit_code, result.output.count("\n")) == (3, 1), result.output


# ---- the file itself -------------------------------------------------------------------------------------------------


def test_two_exports_are_the_same_bytes_and_say_what_they_are(tmp_path: Path) -> None:
    texts = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        written(tmp_path / name, "rope", Spec("dynamic", "exact", None, 64), {"head_dim": 8})
        texts.append((tmp_path / name / "model.hpp").read_bytes())
    assert texts[0] == texts[1]
    top = texts[0].decode().partition("#if")[0]
    assert all(line.startswith("//") for line in top.splitlines())
    for fact in (
        "scheme: rope",
        "id: ",
        "params.head_dim: 8",
        "worst_error: ",
        "Positions are 0..16777215",
        "posenc::rotate_from(0, ",
    ):
        assert fact in top, fact


@pytest.mark.parametrize(
    ("args", "reason"),
    [
        (["--dynamic", "--method", "trig"], "leave --method trig out"),
        (["--dtype", "fp16"], "C++17 has no float16: give --dtype fp32 or fp64"),
        (["rope", "--dtype", "bf16"], "C++17 has no bfloat16"),
        (["xpos"], "queries and keys must be rotated alike: those of xPos are not"),
        (
            ["--dynamic", "-p", "d_model=4096"],
            "4,456,448 numbers, more than 4,194,304: give fewer features",
        ),
        (["-p", "d_model=512", "--max-len", "8193"], "its tables have 4,194,816 numbers, more than 4,194,304: give "),
        (["rope", "--max-len", "32769"], "its tables have 4,194,432 numbers"),
        (["helpers.broken:Good", "-i", "x: float32[batch, seq, 8]"], "encodings of the family module are none of them"),
        (
            ["rope", "--dynamic", "-p", "rope_type=dynamic", "-p", "factor=2", "-p", "max_position_embeddings=32"],
            "give --baked, for those of one length",
        ),
    ],
)
def test_what_cannot_be_a_header_is_one_line(cli: Cli, args: list[str], reason: str) -> None:
    result = cli("export", *args, "-f", "header")
    assert result.exit_code == 2, result.output
    assert "cannot be exported to header: " in result.output
    assert reason in result.output
    assert result.output.count("\n") == 1
    assert list(Path().iterdir()) == []


def test_frequencies_that_switch_are_refused_unless_baked(tmp_path: Path) -> None:
    params = {"head_dim": 16, "rope_type": "longrope", **ROPE_TYPES["longrope"].samples[0]}
    with pytest.raises(BadInput, match="give --baked"):
        written(tmp_path, "rope", Spec("dynamic", "exact", None, 64), params)
    assert not FORMATS["header"].refuses(scheme_target("rope", Spec(), {}, 0).encoding)
