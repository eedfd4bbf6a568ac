"""Imports go one way: posenc <- posenc_models, posenc <- posenc_export <- runtime_tests."""

import ast
import subprocess
import sys

from conftest import ROOT

ALLOWED = {
    "posenc": {"posenc"},
    "posenc_models": {"posenc", "posenc_models"},
    "posenc_export": {"posenc", "posenc_export"},
}
FOLDERS = {"posenc": "posenc", "posenc_models": "models/posenc_models", "posenc_export": "export/posenc_export"}


def test_imports_go_one_way() -> None:
    for package, folder in FOLDERS.items():
        for file in (ROOT / folder).rglob("*.py"):
            for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
                names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
                names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
                ours = {name.split(".")[0] for name in names} & set(FOLDERS)
                assert ours <= ALLOWED[package], f"{file} imports {ours - ALLOWED[package]}"


def test_nothing_heavy_is_imported_for_help() -> None:
    heavy = ("torch", "onnx", "onnxruntime", "rich")
    code = f"import sys, posenc_export.cli; print([m for m in {heavy} if m in sys.modules])"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"
