"""The text of -i: what it says, what it leaves to names, and where an error points."""

import pytest

from posenc.ports import (
    BATCH,
    SEQ,
    Axis,
    Blocks,
    Boxes,
    Extents,
    Frames,
    Grids,
    Indices,
    Mask,
    Port,
    Positions,
    Size,
    Start,
    Values,
    axes_of,
    fixed,
)
from posenc_export.write.inputs.axis_names import AXIS_KINDS
from posenc_export.write.inputs.ports import assumptions, parse_port, parse_ports

BOTH = (BATCH, SEQ)
ONE = (fixed(1),)

GOOD: dict[str, Port] = {
    "x: float32[batch, seq, 512]": Port("x", (*BOTH, fixed(512)), "float32"),
    "s: float64[]": Port("s", (), "float64"),
    "t: float32[batch] in 0..1000": Port("t", (BATCH,), "float32", Values(0, 1000)),
    "t: float16[batch] in -1.5 .. -0.25": Port("t", (BATCH,), "float16", Values(-1.5, -0.25)),
    "ids: int64[batch, seq] in 2..98": Port("ids", BOTH, "int64", Values(2, 98)),
    "positions: int32[batch, seq] in -3..5": Port("positions", BOTH, "int32", Values(-3, 5)),
    "pos: int64[batch, seq] positions": Port("pos", BOTH, "int64", Positions()),
    "pos: int32[batch, seq] positions < 512": Port("pos", BOTH, "int32", Positions(512)),
    "position_ids: int64[batch, seq]": Port("position_ids", BOTH, "int64", Positions()),
    "positions: int64[batch, seq] < 64": Port("positions", BOTH, "int64", Positions(64)),
    "positions: int64[batch, seq] indices < 64": Port("positions", BOTH, "int64", Indices(64)),
    "positions: int64[batch, seq] values": Port("positions", BOTH, "int64", Values()),
    "positions: float32[batch, seq]": Port("positions", BOTH, "float32"),
    "start: int64[1]": Port("start", ONE, "int64", Start()),
    "begin: int64[1] start": Port("begin", ONE, "int64", Start()),
    "past_length: int32[1] < 512": Port("past_length", ONE, "int32", Start(512)),
    "start: int64[1] start < 512": Port("start", ONE, "int64", Start(512)),
    "start: int64[batch] values": Port("start", (BATCH,), "int64", Values()),
    "start: float32[batch]": Port("start", (BATCH,), "float32"),
    "keep: int64[batch, seq] mask": Port("keep", BOTH, "int64", Mask()),
    "keep: bool[batch, seq] mask": Port("keep", BOTH, "bool", Mask()),
    "keep: bfloat16[batch, seq] mask": Port("keep", BOTH, "bfloat16", Mask()),
    "m: bfloat16[batch, seq] additive mask": Port("m", BOTH, "bfloat16", Mask(additive=True)),
    "m: float32[batch, 1, 1, seq] additive mask": Port(
        "m", (BATCH, fixed(1), fixed(1), SEQ), "float32", Mask(additive=True)
    ),
    "m: float32[seq, seq] additive mask": Port("m", (SEQ, SEQ), "float32", Mask(additive=True, causal=True)),
    "mask: int32[batch, seq]": Port("mask", BOTH, "int32", Mask()),
    "mask: bool[batch, seq]": Port("mask", BOTH, "bool", Mask()),
    "attention_mask: float32[batch, seq]": Port("attention_mask", BOTH, "float32", Mask(additive=None)),
    "mask: float32[seq, seq]": Port("mask", (SEQ, SEQ), "float32", Mask(additive=None, causal=True)),
    "mask: int64[batch, seq] < 2": Port("mask", BOTH, "int64", Indices(2)),
    "flags: bool[batch, seq]": Port("flags", BOTH, "bool"),
    "ids: int64[batch, seq]": Port("ids", BOTH, "int64", Indices()),
    " ids :int64[ batch,seq ]<256": Port("ids", BOTH, "int64", Indices(256)),
    "ids:\nint64[batch,\n seq] < 256\n": Port("ids", BOTH, "int64", Indices(256)),
    "bbox: int64[batch, seq, 4] boxes < 9": Port("bbox", (*BOTH, fixed(4)), "int64", Boxes(9)),
    "bbox: int32[batch, seq, 4] boxes": Port("bbox", (*BOTH, fixed(4)), "int32", Boxes()),
    "n: int64[1] size of seq": Port("n", ONE, "int64", Size("seq")),
    "n: int64[] size of seq": Port("n", (), "int64", Size("seq")),
    "sizes: int64[batch, 2] extents of batch": Port("sizes", (BATCH, fixed(2)), "int64", Extents("batch")),
    "grids: int64[batch, 3] grids of batch % 2": Port("grids", (BATCH, fixed(3)), "int64", Grids("batch", 2)),
    "grids: int64[batch, 3] grids of batch": Port("grids", (BATCH, fixed(3)), "int64", Grids("batch")),
    "sizes: int64[batch, 2] frames of batch*batch % 14": Port(
        "sizes", (BATCH, fixed(2)), "int64", Frames("batch", "batch", 14)
    ),
    "m: bool[batch, rows % 3] blocks of batch % 15": Port(
        "m", (BATCH, Axis("rows", "length", multiple=3)), "bool", Blocks("batch", 15)
    ),
    "image: float32[batch, 3, height % 14, width%14]": Port(
        "image",
        (BATCH, fixed(3), Axis("height", "grid", multiple=14), Axis("width", "grid", multiple=14)),
        "float32",
    ),
    "x: float32[B:batch, T:length >= 4, 64]": Port(
        "x", (Axis("B", "batch"), Axis("T", "length", least=4), fixed(64)), "float32"
    ),
    "x: float32[T : grid >= 28 % 14]": Port("x", (Axis("T", "grid", least=28, multiple=14),), "float32"),
    "x: float32[T % 14 >= 28]": Port("x", (Axis("T", "length", least=28, multiple=14),), "float32"),
    "x: float32[T, T:heads >= 2]": Port("x", (Axis("T", "heads", least=2),) * 2, "float32"),
    "mask: int64[batch, past+seq] mask": Port("mask", (BATCH, Axis("past+seq", "length")), "int64", Mask()),
    "x: float32[a + b+ c]": Port("x", (Axis("a+b+c", "length"),), "float32"),
}


@pytest.mark.parametrize(("text", "port"), GOOD.items(), ids=GOOD)
def test_what_a_text_says(text: str, port: Port) -> None:
    assert parse_port(text) == port


def test_ports_read_as_they_are_written() -> None:
    for text in ("x: float32[batch, seq, 512]", "start: int64[1]", "s: float64[]", "m: bool[batch, past+seq]"):
        assert str(parse_port(text)) == text


def test_an_axis_is_one_wherever_its_name_stands() -> None:
    texts = (
        "x: float32[a, T]",
        "y: float32[T:grid, a % 3]",
        "z: float32[T >= 4, T:grid, a:heads]",
        "n: int64[] size of a",
    )
    x, y, z, n = parse_ports(texts)
    a, t = Axis("a", "heads", multiple=3), Axis("T", "grid", least=4)
    assert (x.axes, y.axes, z.axes) == ((a, t), (t, a), (t, t, a))
    assert axes_of((x, y, z, n)) == [a, t]


def test_a_size_may_be_that_of_a_term_of_a_sum() -> None:
    mask, n = parse_ports(("mask: int64[batch, past+seq]", "n: int64[1] size of past"))
    assert n.carries == Size("past")
    assert [axis.name for axis in axes_of((mask, n))] == ["batch", "past", "seq"]


def test_usual_names_have_usual_kinds() -> None:
    for name, kind in AXIS_KINDS.items():
        assert parse_port(f"x: float32[{name}]").axes == (Axis(name, kind),)
        assert parse_port(f"x: float32[{name}:features]").axes == (Axis(name, "features"),)


def test_what_is_taken_from_names_is_listed() -> None:
    texts = (
        "position_ids: int64[batch, seq]",
        "start: int64[1]",
        "mask: int64[batch, past+foo]",
        "ids: int64[foo, bar]",
    )
    assert assumptions((*texts, "x: float32[baz, bar, 3, qux:batch]", "attention_mask: float32[qux]")) == (
        "position_ids: carries positions, by its name",
        "start: carries the first position, by its name",
        "mask: carries a mask of 1 and 0, by its name",
        "axis 'foo' of mask: a length, by default",
        "axis 'bar' of ids: a length, by default",
        "axis 'baz' of x: a length, by default",
    )


@pytest.mark.parametrize(
    "text",
    [
        "positions: int64[batch, seq] positions",
        "positions: int64[batch, seq] values",
        "positions: float32[batch, seq]",
        "start: int64[1] start < 8",
        "mask: int64[batch, seq] < 2",
        "mask: float32[batch, seq] mask",
        "ids: int64[batch, seq]",
        "x: float32[what:length, 2]",
    ],
)
def test_nothing_is_taken_from_names_where_the_text_says_it(text: str) -> None:
    assert assumptions((text,)) == ()
