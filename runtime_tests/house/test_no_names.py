"""Nothing is chosen by a name: of a port or an axis, but by the reader of -i, of a scheme, a rope type or a method.

What is fed and planned follows from kinds, what a scheme and a rope type need from what they say of themselves, and of
sincos methods one folder knows the names.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import posenc
from helpers.shared import ROOT
from posenc.rope_types import ROPE_TYPES
from posenc.scheme import SCHEMES
from posenc.spec import CHOICES, Spec, UnsupportedSpec

FOLDERS = ("posenc", "export/posenc_export")
READERS = ("models/posenc_models/config/", "export/posenc_export/cli/")
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


METHODS = "posenc/sincos/"
"""The makers of sincos methods: nobody else asks for one by name."""
THEIR_NAMES = (
    "models/posenc_models/config/model_config.py",
    "models/posenc_models/config/rope/",
    "models/posenc_models/asking/",
)
"""What reads a config, in which a rope type and a key are called as schemes of ours are, and what asks its model."""
NAMED = ("scheme", "rope_type", "method")
"""What holds such a name, whatever it is compared with."""
WORDS = ("default", "dynamic", "linear")
"""Names that mean something else, too: a mode, say. Compared with what holds a rope type they are seen all the same."""


def registered() -> set[str]:
    """The name of every scheme, rope type and sincos method that is no other word."""
    return {*SCHEMES, *ROPE_TYPES, *CHOICES["method"]} - {*WORDS}


def last_name(node: ast.expr) -> str:
    """The name of what an expression reads: of a variable, an attribute, or what is looked up under a constant text."""
    if isinstance(node, ast.Subscript):
        return str(node.slice.value) if isinstance(node.slice, ast.Constant) else ""
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def compared(node: ast.Compare) -> list[str]:
    """The texts that something named for a scheme, a rope type or a method is compared with, in a tuple too."""
    sides = [node.left, *node.comparators]
    if not any(last_name(side) in NAMED for side in sides):
        return []
    constants = [c for side in sides if not last_name(side) for c in ast.walk(side) if isinstance(c, ast.Constant)]
    return [constant.value for constant in constants if isinstance(constant.value, str)]


def choices(source: str) -> Iterator[tuple[int, str]]:
    """Yield the line and the text of every choice by a registered name, or by a text that stands for one.

    A look-up in a table of texts is one, too: `{"exact": ...}[spec.method]`.
    """
    yield from ((line, text) for line, text in looked_up(source) if text in registered())
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Compare):
            yield from ((node.lineno, text) for text in compared(node))
        elif isinstance(node, ast.Subscript) and isinstance(node.value, ast.Dict) and last_name(node.slice) in NAMED:
            yield node.lineno, last_name(node.slice)


def test_nothing_goes_by_the_name_of_a_scheme_a_rope_type_or_a_method() -> None:
    paths = [path for folder in (*FOLDERS, "models/posenc_models") for path in (ROOT / folder).rglob("*.py")]
    assert any(path.relative_to(ROOT).as_posix().startswith(METHODS) for path in paths)
    chosen = [
        f"{path.relative_to(ROOT)}:{line} {text!r}"
        for path in paths
        if not path.relative_to(ROOT).as_posix().startswith((METHODS, *THEIR_NAMES))
        for line, text in choices(path.read_text(encoding="utf-8"))
    ]
    assert chosen == []


CHOSEN = (
    'reading.scheme == "mrope"',
    'parameters["rope_type"] == "proportional"',
    'spec.method == "trig"',
    '"exact" != method',
    'rope_type in ("default", "linear")',
    '{"exact": 1, "trig": 2}[spec.method]',
    'exporters.get("sinusoidal")',
)


@pytest.mark.parametrize("source", CHOSEN)
def test_each_form_of_a_choice_is_seen(source: str) -> None:
    assert list(choices(source))


@pytest.mark.parametrize("source", ['spec.mode == "dynamic"', 'kind == "linear"', "scheme == other"])
def test_other_words_are_no_choice(source: str) -> None:
    assert not list(choices(source))


RULES = "export/posenc_export/bundle/rules.py"
"""What asks whether an encoding is a user's module, once for all: other places name the rule that they go by."""


def test_one_place_asks_whether_an_encoding_is_a_users_module() -> None:
    paths = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")]
    found = [path for path in paths for _, text in looked_up(path.read_text(encoding="utf-8")) if text == "module"]
    assert [path.relative_to(ROOT).as_posix() for path in found] == [RULES]
