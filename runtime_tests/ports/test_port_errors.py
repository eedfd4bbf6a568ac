"""Texts of -i that say nothing sensible: each is refused in three lines, the last one points at the place."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.shared import Cli
from posenc.ports import Extents, Indices, Mask, Positions, Size, Start, Values
from posenc_export.common.arrays import DTYPES
from posenc_export.write.inputs.axis_names import usual_names, words
from posenc_export.write.inputs.ports import parse_port, parse_ports

BAD: list[tuple[str, int, str]] = [
    ("", 0, "a name"),
    ("é: float32[]", 0, "a name"),
    ("x float32[batch]", 2, "':' after the name"),
    ("x: [batch]", 3, "a dtype, one of"),
    ("x: float31[batch]", 3, "a dtype, one of"),
    ("x: float32 batch]", 11, "'[' and the axes"),
    ("x: float32[batch seq]", 17, "',' or ']'"),
    ("x: float32[batch", 16, "',' or ']'"),
    ("x: float32[batch,, seq]", 17, "an axis"),
    ("x: float32[batch,]", 17, "an axis"),
    ("x: float32[batch, 0]", 18, "a size of at least 1"),
    (f"x: float32[{'9' * 19}]", 11, "a number of at most 18 digits"),
    (f"x: float32[{'9' * 9999}]", 11, "a number of at most 18 digits"),
    ("x: float32[3:batch]", 12, "',' or ']'"),
    ("x: float32[T:long]", 13, "a kind, one of batch, heads, length, grid, features"),
    ("x: float32[T:]", 13, "a kind, one of"),
    ("x: float32[T >= 0]", 16, "a size of at least 1"),
    ("x: float32[T >= x]", 16, "a size of at least 1"),
    ("x: float32[T % 0]", 15, "a number above 0"),
    ("x: float32[T % -2]", 15, "a number above 0"),
    ("x: float32[T % 2 % 2]", 17, "one number after %"),
    ("x: float32[T >= 2 >= 3]", 18, "one number after >="),
    ("x: float32[a + a]", 15, "another name: each once in a sum"),
    ("x: float32[a + 1]", 15, "names alone in a sum"),
    ("x: float32[1 + a]", 11, "names alone in a sum"),
    ("x: float32[a + b:batch]", 16, "',' or ']'"),
    (
        "x: float32[batch] junk",
        18,
        "nothing more, or one of additive, blocks, boxes, extents, frames, grids, in, indices, mask, positions, size, ",
    ),
    ("x: float32[batch] ;", 18, "nothing more"),
    ("m: float32[seq, seq] additive", 29, "'mask' after additive"),
    ("m: float32[seq, seq] additive map", 30, "'mask' after additive"),
    ("m: bool[seq, seq] additive mask", 18, "no additive mask: only floats are added"),
    ("m: float32[seq] additive mask", 10, "two axes at least, the last that of keys"),
    ("b: float32[n, 4] boxes", 17, "no boxes: only of integers"),
    ("b: int64[n, 2] boxes", 8, "a last axis of 4: left, top, right and bottom"),
    ("g: float32[n, 3] grids of p", 17, "no grids: only of int64"),
    ("g: int64[n, 2] grids of n", 8, "[pictures, 3], the steps, rows and columns of each picture"),
    ("g: int64[n, 3] grids of n %", 27, "a number above 0"),
    ("s: int64[n, 2] frames of n", 26, "'*' and another axis"),
    ("s: int64[n, 3] frames of n*n", 8, "[pictures, 2], the height and the width of each picture"),
    ("m: bool[n] blocks of n", 7, "[sounds, places], as many places as the blocks of the longest sound make"),
    ("m: float32[n, k] blocks of n", 17, "no blocks: only of bool, int64 or int32"),
    ("x: int64[batch] values values", 23, "nothing more"),
    ("x: int64[batch] mask < 5", 21, "nothing more"),
    ("x: float32[batch] < 5", 18, "no bound"),
    ("x: bool[batch] < 5", 15, "no bound"),
    ("x: int64[batch] < 0", 18, "a number above 0"),
    ("x: int64[batch] < x", 18, "a number above every value"),
    ("x: int64[batch] positions < 0", 28, "a number above 0"),
    ("x: bool[batch] in 0..5", 15, "no range: only numbers have one"),
    ("x: int64[batch] in 0.5..5", 19, "a whole number, as int64 holds"),
    ("x: int64[batch] in 5..2", 22, "a number above 5"),
    ("x: int64[batch] in 2..98 < 99", 25, "nothing more"),
    ("x: int32[batch] in 0..2147483648", 22, "a number that int32 holds"),
    (f"x: int64[batch] in 0..{2**63}", 22, "a number that int64 holds"),
    (f"x: int64[batch] in 0..{'9' * 9999}", 22, "a number that int64 holds"),
    ("x: float32[batch] in 5", 22, "'..' and a number"),
    ("x: float32[batch] in x..5", 21, "a number"),
    ("x: float32[batch] in 5..5", 24, "a number above 5"),
    ("x: float32[batch] in 5..-5", 24, "a number above 5"),
    ("x: float16[batch] in 0..65505", 24, "a number that float16 holds"),
    (f"x: float32[batch] in -{'9' * 400}..0", 21, "a number that float32 holds"),
    ("x: float32[batch] positions", 18, "no positions: only of integers"),
    ("x: bool[batch] indices", 15, "no indices: only of integers"),
    ("x: float32[1] start", 14, "no start: only of integers"),
    ("x: float32[1] size of batch", 14, "no size: only of integers"),
    ("x: int64[batch] start", 8, "[1], the shape of a first position, as in"),
    ("x: int64[2] start", 8, "[1], the shape of a first position"),
    ("start: int64[]", 12, "[1], the shape of a first position (by its name, 'start'; 'values' after the axes"),
    ("x: int64[batch] size of batch", 8, "[] or [1], the shape of a size"),
    ("x: int64[1] size batch", 17, "'of' and an axis after size"),
    ("x: int64[1] size of", 19, "the name of an axis"),
    ("x: int64[1] size of a+b", 21, "nothing more"),
    ("x: float32[batch, 2] extents of batch", 21, "no extents: only of int64"),
    ("x: int32[batch, 2] extents of batch", 19, "no extents: only of int64"),
    ("x: int64[batch] extents of batch", 8, "[batch, 2], the rows and columns of each image"),
    ("x: int64[batch, 3] extents of batch", 8, "[batch, 2], the rows and columns of each image"),
    ("x: int64[batch, n] extents of n", 8, "[batch, 2], the rows and columns of each image"),
    ("x: int64[batch, 2] extents seq", 27, "'of' and an axis after extents"),
    ("x: int64[batch, 2] extents of", 29, "the name of an axis"),
    ("positions: int64[]", 16, "an axis along which tokens are (by its name, 'positions'"),
    ("x: float32[] mask", 10, "an axis along which tokens are"),
]

CLASHES: list[tuple[tuple[str, ...], int, str]] = [
    (("x: float32[a]", "x: float32[b]"), 0, "two inputs are named 'x'"),
    (("x: float32[T:length]", "y: float32[2, T:batch]"), 14, "axis 'T' has two kinds: length in x, batch in y"),
    (("x: float32[T >= 2]", "y: float32[T]", "z: float32[T >= 3]"), 11, "two least sizes: 2 in x, 3 in z"),
    (("x: float32[T % 2]", "y: float32[T % 4]"), 11, "axis 'T' has two multiples: 2 in x, 4 in y"),
    (("x: float32[T:length, T:batch]",), 21, "axis 'T' has two kinds: length in x, batch in x"),
    (("x: float32[seq, 8]", "n: int64[1] size of batch"), 20, "no input has a dynamic axis 'batch'"),
    (("x: float32[b, seq, 8]", "s: int64[b, 2] extents of n"), 26, "no input has a dynamic axis 'n'"),
]


@pytest.mark.parametrize(("text", "caret", "expected"), BAD, ids=[text[:40] for text, _, _ in BAD])
def test_the_caret_is_under_the_place(text: str, caret: int, expected: str) -> None:
    with pytest.raises(ValueError, match="-i: expected") as error:
        parse_port(text)
    first, line, pointer = str(error.value).split("\n")
    assert expected in first
    assert line == f"  {text}"
    assert pointer == "  " + " " * caret + "^"


@pytest.mark.parametrize(("texts", "caret", "problem"), CLASHES)
def test_inputs_that_contradict_are_named(texts: tuple[str, ...], caret: int, problem: str) -> None:
    with pytest.raises(ValueError, match=f"-i: .*{re.escape(problem)}") as error:
        parse_ports(texts)
    assert str(error.value).split("\n")[1:] == [f"  {texts[-1]}", "  " + " " * caret + "^"]


def test_the_command_line_shows_the_caret(cli: Cli) -> None:
    result = cli("export", "helpers.broken:Good", "-i", "x: float32[batch seq]")
    assert result.exit_code == 2
    assert result.output.splitlines()[-2:] == ["  x: float32[batch seq]", "  " + " " * 17 + "^"]


def test_the_help_has_every_word(cli: Cli) -> None:
    text = " ".join(cli("export", "--help").output.split())
    said = text.split("A word after the axes says what it carries: ")[1].split("values.")[0] + "values"
    assert words().keys() <= set(re.findall(r"\w+", said))


def test_a_line_break_does_not_move_the_caret() -> None:
    with pytest.raises(ValueError, match="a dtype") as error:
        parse_port("x:\n\u2028y[]")
    assert str(error.value).split("\n")[1:] == ["  x:  y[]", "      ^"]


WRITTEN = (
    "of",
    "batch",
    "seq",
    "x",
    "0",
    "1",
    "14",
    "-0.5",
    "1e5",
    "..",
    ".",
    ">=",
    "x: float32[",
    "n: int64[1] ",
    "é",
    "٣",
)
PIECES = st.sampled_from([*DTYPES, *words(), *usual_names(), *WRITTEN, *":[],+%<>=-; \t\n\0", "9" * 30])
TEXTS = st.text() | st.lists(PIECES).map("".join) | st.lists(PIECES).map(lambda rest: "x: int64[" + " ".join(rest))


@settings(max_examples=500, deadline=None)
@given(st.lists(TEXTS, min_size=1, max_size=3))
def test_any_text_is_ports_or_an_error_of_three_lines(texts: list[str]) -> None:
    try:
        ports = parse_ports(tuple(texts))
    except ValueError as error:
        lines = str(error).splitlines()
        assert len(lines) == 3
        assert lines[0].startswith("-i: ")
        assert lines[2].strip() == "^"
        assert len(lines[2]) - 3 <= len(lines[1]) - 2
    else:
        assert len(ports) == len(texts)
        known = Values | Positions | Start | Mask | Indices | Size | Extents
        assert all(isinstance(port.carries, known) for port in ports)
        dynamic = {axis for port in ports for axis in port.dynamic.values()}
        assert len({axis.name for axis in dynamic}) == len(dynamic)


@pytest.mark.parametrize(
    "text",
    ["x: float32[" + "a, " * 9999, "x: float32[" + "a + b + " * 9999, " " * 99999, "x: float32[] in " + "9" * 99999],
    ids=["axes", "terms", "spaces", "digits"],
)
def test_long_texts_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="-i: expected"):
        parse_port(text)
