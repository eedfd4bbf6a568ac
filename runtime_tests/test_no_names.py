"""Nothing looks a port or an axis up by its name, but the reader of -i: what is fed and planned follows from kinds."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import posenc
from conftest import ROOT
from posenc.scheme import SCHEMES
from posenc.spec import CHOICES, Spec, UnsupportedSpec

FOLDERS = ("posenc", "export/posenc_export")
READERS = ("posenc/hf/", "export/posenc_export/cli/")
"""What reads a model's config, and what reads text."""
PARAMETERS = ("width", "scores", "bias", "heads", "batch", "head_dim")
"""Names of parameters, of their choices, or of kinds of axes, too."""


def names() -> set[str]:
    """The names of every port and axis that a scheme has, in any spec."""
    named = set()
    for scheme in SCHEMES.values():
        for mode in CHOICES["mode"]:
            for positions in CHOICES["positions"]:
                for sample in scheme.samples:
                    try:
                        encoding = posenc.build(scheme.name, Spec(mode, "exact", positions, 70), **sample)  # type: ignore[arg-type]
                    except UnsupportedSpec:
                        continue
                    for port in (*encoding.inputs, *encoding.outputs):
                        named |= {port.name, *(axis.name for axis in port.axes)}
    return named - {"", *PARAMETERS}


def looked_up(source: str) -> Iterator[tuple[int, str]]:
    """Yield the line and the text of every subscript, comparison and `get` by a constant text."""
    for node in ast.walk(ast.parse(source)):
        parts: list[ast.expr] = []
        if isinstance(node, ast.Subscript) and not (isinstance(node.value, ast.Name) and node.value.id == "Literal"):
            parts = [node.slice]
        elif isinstance(node, ast.Compare):
            parts = [node.left, *node.comparators]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ("get", "pop"):
            parts = list(node.args[:1])
        for part in parts:
            for constant in ast.walk(part) if isinstance(part, (ast.Set, ast.Tuple, ast.List)) else [part]:
                if isinstance(constant, ast.Constant) and isinstance(constant.value, str):
                    yield constant.lineno, constant.value


def files() -> list[Path]:
    paths = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")]
    return [path for path in paths if not path.relative_to(ROOT).as_posix().startswith(READERS)]


def test_nothing_is_looked_up_by_the_name_of_a_port_or_an_axis() -> None:
    known = names()
    assert {"x", "q", "seq", "height", "positions", "start", "attention_mask"} <= known
    look_ups = [
        f"{path.relative_to(ROOT)}:{line} {text!r}"
        for path in files()
        for line, text in looked_up(path.read_text(encoding="utf-8"))
        if text in known
    ]
    assert look_ups == []


SOURCES = (
    'feeds["x"]',
    'a == "seq"',
    '"seq" in sizes',
    'feeds.get("q")',
    'axis in ("head", "head_kv")',
    '{"x"} & a == {"q"}',
)


@pytest.mark.parametrize("source", SOURCES)
def test_each_form_of_a_look_up_is_seen(source: str) -> None:
    assert {text for _, text in looked_up(source)} & names()
