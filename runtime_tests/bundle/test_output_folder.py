"""Nothing of the user's is replaced: a folder with anything in it that export did not write is refused first."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from helpers.shared import Cli
from posenc_export.bundle import place as places
from posenc_export.bundle.place import check_target, digests_of
from posenc_export.bundle.replacement import install, staged
from posenc_export.bundle.system import IMMUTABLE, MOUNT_POINT, attributes
from posenc_export.common.errors import BadInput
from scripts.kill_points import put, state, write

ARGS = ["--dynamic", "-p", "d_model=8", "--max-len", "40"]


# ---- what is the user's ----------------------------------------------------------------------------------------------


def add(name: str) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("mine")

    return change


def link(folder: Path) -> None:
    (folder / "model.onnx").rename(folder.parent / "elsewhere")
    (folder / "model.onnx").symlink_to(folder.parent / "elsewhere")


def edit_manifest(**fields: object) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        path = folder / "manifest.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), **fields}))

    return change


CHANGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "notes": (add("notes.txt"), "notes.txt, which posenc-export did not write"),
    "hidden": (add(".vscode/settings"), ".vscode, which posenc-export did not write"),
    "build": (add("cpp/build/example"), "cpp/build, which posenc-export did not write"),
    "empty folder": (lambda folder: (folder / "plots").mkdir(), "plots, which posenc-export did not write"),
    "edited source": (add("cpp/CMakeLists.txt"), "cpp/CMakeLists.txt, which was changed after posenc-export wrote it"),
    "edited graph": (add("model.onnx"), "model.onnx, which was changed after posenc-export wrote it"),
    "edited report": (add("report.md"), "report.md, which was changed after posenc-export wrote it"),
    "edited figures": (add("report.json"), "report.json, which was changed after posenc-export wrote it"),
    "no figures": (lambda f: (f / "report.json").unlink(), "report.md, which was changed after"),
    "edited notes": (edit_manifest(notes=["mine"]), "manifest.json, which was changed after posenc-export wrote it"),
    "linked graph": (link, "model.onnx, which was changed after posenc-export wrote it"),
    "other manifest": (lambda f: (f / "manifest.json").write_text('{"name": "app"}'), "cpp, which"),
    "numbers": (lambda f: (f / "manifest.json").write_text("[1]"), "cpp, which"),
    "no JSON": (lambda f: (f / "manifest.json").write_text("{"), "cpp, which"),
    "deep JSON": (lambda f: (f / "manifest.json").write_text("[" * 100_000), "cpp, which"),
    "newer": (edit_manifest(schema_version=99), "cpp, which"),
    "true": (edit_manifest(schema_version=True), "cpp, which"),
    "no scheme": (edit_manifest(scheme=None), "cpp, which"),
    "odd list": (edit_manifest(files={"a": 1}), "cpp, which"),
    "odd entries": (edit_manifest(artifacts=[1, {}], files=[[]]), "cpp, which"),
    "unlisted": (edit_manifest(files=[]), "cpp, which"),
}


@pytest.mark.parametrize("which", ["b", "b-failed"])
@pytest.mark.parametrize("change", CHANGES)
def test_a_folder_with_something_else_in_it_is_refused(tmp_path: Path, change: str, which: str) -> None:
    write(tmp_path / which, "old")
    check_target(tmp_path / "b")
    alter, text = CHANGES[change]
    alter(tmp_path / which)
    before = contents_of(tmp_path)
    with pytest.raises(BadInput) as caught:
        check_target(tmp_path / "b")
    assert caught.value.message.startswith(f"{tmp_path / which} holds {text}")
    assert caught.value.message.endswith("is left alone: give another with -o, or --force to replace it")
    assert "\n" not in caught.value.message
    with pytest.raises(BadInput):
        put(tmp_path / which, "new")
    assert contents_of(tmp_path) == before
    check_target(tmp_path / "b", force=True)
    put(tmp_path / which, "new", force=True)
    assert state(tmp_path / which) == "new"


def contents_of(folder: Path) -> dict[str, bytes]:
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_a_web_app_is_left_alone(tmp_path: Path) -> None:
    app = {"manifest.json": '{"name": "app", "start_url": "."}', "index.html": "<html>"}
    (tmp_path / "b").mkdir()
    for name, text in app.items():
        (tmp_path / "b" / name).write_text(text)
    with pytest.raises(BadInput, match=r"holds index.html, which posenc-export did not write"):
        check_target(tmp_path / "b")


def test_bundles_of_older_schema_versions_are_ours(old: Path) -> None:
    edit_manifest(schema_version=1)(old)
    with pytest.raises(BadInput, match=r"holds manifest.json, which was changed"):
        check_target(old)
    for name in ("report.json", "report.md"):
        (old / name).unlink()
    check_target(old)
    manifest = json.loads((old / "manifest.json").read_text())
    del manifest["files"]
    (old / "manifest.json").write_text(json.dumps(manifest))
    assert set(digests_of(old / "manifest.json")) >= {"model.onnx", "golden.npz"}
    with pytest.raises(BadInput, match="holds cpp, which"):
        check_target(old)


def test_what_was_put_there_during_the_export_is_left_alone(old: Path) -> None:
    check_target(old)
    with staged(old) as scratch:
        write(scratch, "new")
        (old / "notes.txt").write_text("mine")
        with pytest.raises(BadInput, match=r"holds notes.txt"):
            install(scratch, old)
    assert (old / "notes.txt").read_text() == "mine"
    assert os.listdir(old.parent) == ["b"]


def test_the_command_refuses_before_any_work(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("posenc_export.export", lambda *_, **__: pytest.fail("it went on"))
    write(tmp_path / "b", "old")
    (tmp_path / "b" / "notes.txt").write_text("mine")
    result = cli("export", *ARGS, "-o", "b")
    assert result.exit_code == 2
    assert "Error: b holds notes.txt, which posenc-export did not write" in result.output
    for place, text in ((".", "current folder"), ("..", "current folder"), ("/", "current folder"), ("/proc", "mount")):
        result = cli("export", *ARGS, "-o", place, "--force")
        assert (result.exit_code, text in result.output) == (2, True), result.output


@pytest.mark.exhaustive
def test_the_default_place_is_looked_at_too(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "sinusoidal-dynamic").mkdir()
    (tmp_path / "sinusoidal-dynamic" / "notes.txt").write_text("mine")
    result = cli("export", *ARGS)
    assert (result.exit_code, "sinusoidal-dynamic holds notes.txt" in result.output) == (2, True)


@pytest.mark.exhaustive
def test_what_export_writes_it_replaces(cli: Cli, tmp_path: Path) -> None:
    for extra in (["--cpp"], ["--cpp", "--atol", "0", "-p", "base=500"], ["-f", "onnx"]):
        for _ in range(2):
            result = cli("export", *ARGS, "-q", "-o", "b", *extra)
            assert result.exit_code == ("--atol" in extra), result.output
    listed = digests_of(tmp_path / "b-failed" / "manifest.json")
    written = {p.relative_to(tmp_path / "b-failed").as_posix() for p in (tmp_path / "b-failed").rglob("*")}
    assert {name for name in written if not (tmp_path / "b-failed" / name).is_dir()} == set(listed)
    assert {"cpp/example.cpp", "golden.npz", "report.md"} <= set(listed)
    (tmp_path / "b" / "notes.txt").touch()
    assert cli("export", *ARGS, "-q", "-o", "b").exit_code == 2
    assert cli("export", *ARGS, "-q", "-o", "b", "--force").exit_code == 0
    assert not (tmp_path / "b" / "notes.txt").exists()


# ---- what cannot be moved --------------------------------------------------------------------------------------------


def test_attributes_are_those_of_the_system(tmp_path: Path) -> None:
    assert attributes(Path("/proc")) & MOUNT_POINT
    assert not attributes(tmp_path) & (MOUNT_POINT | IMMUTABLE)
    assert attributes(tmp_path / "nowhere") == 0


@pytest.mark.parametrize("fixed", ["b", "b/cpp", "b/model.onnx"])
@pytest.mark.parametrize("attribute", [IMMUTABLE, MOUNT_POINT])
def test_what_cannot_be_moved_or_emptied_is_refused_at_once(
    old: Path, monkeypatch: pytest.MonkeyPatch, attribute: int, fixed: str
) -> None:
    monkeypatch.setattr(places, "attributes", lambda path: attribute * (path == old.parent / fixed))
    for force in (False, True):
        with pytest.raises(BadInput, match=r"cannot be replaced: .* (mount|immutable)"):
            check_target(old, force)
    monkeypatch.setattr(places, "attributes", lambda path: IMMUTABLE * (path == old.parent))
    with pytest.raises(BadInput, match="cannot write into"):
        check_target(old)


def test_a_folder_of_somebody_else_is_refused_at_once(old: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old.parent.chmod(0o1777)
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    with pytest.raises(BadInput, match="belongs to another user"):
        check_target(old)
    monkeypatch.setattr(os, "access", lambda path, mode: path != old)
    with pytest.raises(BadInput, match="cannot be written"):
        check_target(old)
