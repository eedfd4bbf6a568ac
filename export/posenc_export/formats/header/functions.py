"""What a program calls of a header: the functions of each family, filled in from templates."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from posenc.encoding import Tables
from posenc_export.cpp import filled

Shape = Mapping[str, int | bool]


@dataclass(frozen=True)
class Functions:
    """What a program calls: its text, the constants beside it, and how it is used, for the comment on top."""

    text: str
    constants: Shape
    example: str


def additive(tables: Tables, shape: Shape) -> Functions:
    """Return the functions that write rows, and add them to x."""
    example = (
        "bool fine = posenc::rows(0, seq, y);  // the rows themselves, (seq, width)\n"
        "fine = posenc::add(start, seq, x, y);  // x + rows"
    )
    return Functions(filled("additive.hpp"), {"width": tables.width}, example)


def rotary(tables: Tables, shape: Shape) -> Functions:
    """Return the functions that rotate heads."""
    example = (
        "for (std::size_t t = 0; t < seq; ++t) {  // q: (heads, seq, head_dim), rotated in place\n"
        "  posenc::real* head = q + t * posenc::head_dim;\n"
        f"  bool fine = posenc::rotate({_position(tables)}, head, head, heads, seq * posenc::head_dim);\n"
        "}"
    )
    return _by_cos_sin(tables, {"width": tables.width // 2, **shape}, example, rotate=True)


def cos_sin(tables: Tables, shape: Shape) -> Functions:
    """Return the functions that write cosines and sines."""
    example = f"bool fine = posenc::row({_position(tables)}, cos, sin);  // (width) each"
    return _by_cos_sin(tables, shape, example, rotate=False)


FUNCTIONS: Mapping[str, Callable[[Tables, Shape], Functions]] = {
    "additive": additive,
    "rotary": rotary,
    "cos_sin": cos_sin,
}
"""By family of encoding."""


def _axes(tables: Tables) -> int:
    """Return the positions of a token."""
    return max(tables.axes) + 1


def _position(tables: Tables) -> str:
    """Return what an example's position is called."""
    axes = _axes(tables)
    return "{" + ", ".join("abc"[:axes]) + "}" if axes > 1 else "t"


def _by_cos_sin(tables: Tables, shape: Shape, example: str, *, rotate: bool) -> Functions:
    """Return the functions of a rotary encoding, at one position a token or at an array of several."""
    axes = _axes(tables)
    how = _several_positions(axes) if axes > 1 else _one_position()
    more = [filled("cos_sin_rows.hpp")] if axes == 1 else []
    more += [filled("apply_rotary.hpp"), filled("rotate.hpp", **how)] if rotate else []
    first = {"width": shape["width"], "pairs": tables.width // 2, "axes": axes}
    return Functions(filled("cos_sin.hpp", more="".join(more), **how), {**first, **shape}, example)


def _one_position() -> dict[str, str]:
    return {"place": "std::int64_t", "pointer": "&position", "refused": "!detail::holds(position, 1)"}


def _several_positions(axes: int) -> dict[str, str]:
    refused = " || ".join(f"!detail::holds(position[{axis}], 1)" for axis in range(axes))
    return {"place": f"const std::array<std::int64_t, {axes}>&", "pointer": "position.data()", "refused": refused}
