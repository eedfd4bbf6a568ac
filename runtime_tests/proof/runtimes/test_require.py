"""`--require X` is never met by anything but a run of X: where it never ran the status is 2 or 3, whatever passed."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import posenc_export
from helpers import hostile
from helpers.shared import Cli, one_of_each
from posenc_export.common.errors import BadInput, Unavailable
from posenc_export.proof.runtimes import RUNTIMES
from posenc_export.write.formats import FORMATS

Manifest = dict[str, Any]


def none(manifest: Manifest, format_: str) -> None:
    manifest["artifacts"] = []


def unknown(manifest: Manifest, format_: str) -> None:
    for artifact in manifest["artifacts"]:
        artifact["format"] = "tflite"


def only_weights(manifest: Manifest, format_: str) -> None:
    for artifact in manifest["artifacts"]:
        artifact["format"] = f"{format_}.data"


def others(manifest: Manifest, format_: str) -> None:
    manifest["artifacts"] = [a for a in manifest["artifacts"] if a["format"] != format_]


def damaged(manifest: Manifest, format_: str) -> None:
    """Every file is another than the manifest says, that of the format among them."""
    file = manifest["artifacts"][0]
    manifest["artifacts"] = [{**file, "format": format_, "sha256": "0" * 64}]


def nothing_to_compare(manifest: Manifest, format_: str) -> None:
    file = next((a for a in manifest["artifacts"] if a["format"] == format_), manifest["artifacts"][0])
    manifest["artifacts"], manifest["cases"] = [{**file, "format": format_}], []


def all_refused(manifest: Manifest, format_: str) -> None:
    cases = [{**case, "refused": True} for case in manifest["cases"]]
    nothing_to_compare(manifest, format_)
    manifest["cases"] = cases


KINDS = [none, unknown, only_weights, others, damaged, nothing_to_compare, all_refused]


@pytest.mark.parametrize(
    ("name", "spoil"), one_of_each([(name, kind) for name in RUNTIMES for kind in KINDS], lambda pair: pair[1])
)
def test_what_never_ran_is_status_2_or_3(
    cli: Cli, bundle: Path, name: str, spoil: Callable[[Manifest, str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "posenc_export.proof.runtimes.runner_build.Program.build", lambda *_: None
    )  # built or not, as it is
    hostile.edit(bundle, lambda manifest: spoil(manifest, RUNTIMES[name].format))
    for more in ((), ("--runtime", name), ("--runtime", "onnx-reference")):
        result = cli("validate", str(bundle), "--trust", "--require", name, *more, "-q")
        assert result.exit_code in (2, 3), (more, result.output)
        assert result.output.startswith("Error: "), result.output
        assert result.output.count("\n") == 1, result.output


@pytest.mark.parametrize("name", one_of_each(RUNTIMES, lambda _: None))
def test_from_python_it_is_an_error_or_unmet(bundle: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("posenc_export.proof.runtimes.runner_build.Program.build", lambda *_: None)
    hostile.edit(bundle, lambda manifest: damaged(manifest, RUNTIMES[name].format))
    try:
        result = posenc_export.validate(bundle, trust=True, require=[name])
    except Unavailable as error:
        reason = error.message
    else:
        assert not result.passed
        (reason,) = result.unmet
    assert re.match(f"{name} is required and (not available here: |did not run: model.onnx is not the file)", reason)


def test_what_is_required_runs_whatever_else_is_named(bundle: Path) -> None:
    result = posenc_export.validate(bundle, runtimes=["ort-cpu"], require=["onnx-reference"])
    assert result.passed
    assert {"ort-cpu", "onnx-reference"} == {v.subject for v in result.verdicts if v.check == "agrees"}


@pytest.mark.parametrize("name", ["ort-cpp", "libtorch-cpp"])
def test_a_runner_that_cannot_be_built_is_status_3(
    cli: Cli, bundle: Path, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", "")
    for option in ((), ("--runtime", name)):
        result = cli("validate", str(bundle), "--trust", "--require", name, *option)
        assert result.exit_code == 3, result.output
        assert f"{name} is required and not available here: cannot build" in result.output
        assert result.output.count("\n") == 1


@pytest.mark.parametrize("name", one_of_each(RUNTIMES, lambda _: None))
def test_to_name_a_runtime_that_reads_nothing_of_a_bundle_is_status_2(cli: Cli, bundle: Path, name: str) -> None:
    hostile.edit(bundle, lambda manifest: others(manifest, RUNTIMES[name].format))
    rest = [a["format"] for a in json.loads((bundle / "manifest.json").read_text())["artifacts"]]
    result = cli("validate", str(bundle), "--trust", "--runtime", name)
    expected = f"Error: --runtime {name} needs {RUNTIMES[name].format}: here is only {', '.join(rest)}\n"
    assert (result.exit_code, result.output) == (2, expected)


def test_an_export_that_is_not_validated_cannot_meet_it(cli: Cli) -> None:
    result = cli("export", "-p", "d_model=8", "--no-validate", "--require", "ort-cpu")
    text = "Error: --require ort-cpu runs nothing with --no-validate: leave out one of them\n"
    assert (result.exit_code, result.output, list(Path().iterdir())) == (2, text, [])
    with pytest.raises(BadInput, match="runs nothing with validate=False"):
        posenc_export.export(to="a", require=["ort-cpu"], validate=False)


def test_every_format_has_a_runtime_to_require() -> None:
    assert {runtime.format for runtime in RUNTIMES.values()} == set(FORMATS)
