"""Every option that a message names is one of a command: to rename an option is to change what this test lists."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from posenc_export.cli import export, main

ROOT = Path(__file__).parents[2]
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z0-9]*(?:-[a-z0-9]+)*")
OF_OTHERS = {
    "python -m http.server": ("--bind", "--directory"),
    "cmake": ("--build", "--parallel"),
    "chromium": ("--enable-features", "--enable-unsafe-webgpu", "--ignore-gpu-blocklist", "--use-webgpu-adapter"),
    "pip": ("--force-reinstall", "--upgrade"),
    "npm": ("--prefix",),
    "onnxruntime's build.py": ("--include",),
    "nvidia-smi": ("--query-gpu",),
    "ld": ("--version-script",),
    "a style sheet": ("--line", "--link", "--paper", "--soft", "--sunk"),
}
"""Words of other programs, by program."""


def options(command: click.Command) -> Iterator[str]:
    """Yield the options of a command and of those below it."""
    for parameter in command.params:
        yield from (*parameter.opts, *parameter.secondary_opts)
    for below in getattr(command, "commands", {}).values():
        yield from options(below)


OPTIONS = {*options(main), *options(export), "--help"}


@pytest.mark.parametrize("folder", ["posenc", "export/posenc_export", "models/posenc_models"])
def test_messages_name_options_that_exist(folder: str) -> None:
    allowed = OPTIONS | {word for words in OF_OTHERS.values() for word in words}
    unknown = []
    for file in sorted((ROOT / folder).rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                named = set(OPTION.findall(node.value)) - allowed
                unknown += [f"{file.relative_to(ROOT)}:{node.lineno}: {word}" for word in sorted(named)]
    assert not unknown, "\n".join(unknown)
