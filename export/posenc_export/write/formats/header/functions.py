"""The functions of a header, by family, filled in from templates.

Templates are written in what C99 and C++17 have in common; every name that a header defines begins with pe_.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from posenc.encoding import Tables
from posenc_export.write.cpp import filled
from posenc_export.write.formats.header.constants import constant

Shape = Mapping[str, int | bool]
BLOCK_BYTES = 32768
"""Bytes of the stack for the angles of tokens that are rotated together; with 8 KB, long calls take 1.4x as long."""
SIZES: Mapping[str, int] = {"float32": 4, "float64": 8}


@dataclass(frozen=True)
class Functions:
    """Functions of a header: templates with their fields, constants, an example for the comment on top.

    Args:
        kernels: whether the functions multiply; then, as with digits of a position, the compiler must not contract.
    """

    templates: tuple[str, ...]
    fields: Mapping[str, object]
    constants: Shape
    example: str
    kernels: bool = False

    def text(self, **storage: str) -> str:
        """Return the definitions of the functions."""
        return "".join(filled(name, **self.fields, **storage) for name in self.templates)


def additive(tables: Tables, shape: Shape, dtype: str) -> Functions:
    """Return the functions that write rows, and add them to x."""
    scaled = tables.scale_x != 1.0
    x = f"{tables.scale_x:.9g} x" if scaled else "x"
    example = (
        "bool fine = pe_rows(0, seq, y);  // the rows themselves, (seq, width)\n"
        f"fine = pe_add(start, seq, x, y);  // {x} + rows"
    )
    fields = {"x": x, "scale_x": constant(float(np.dtype(dtype).type(tables.scale_x)), dtype)}
    templates = ("add_to_scaled" if scaled else "add_to", "additive")
    return Functions(templates, fields, {"width": tables.width}, example)


def rotary(tables: Tables, shape: Shape, dtype: str) -> Functions:
    """Return the functions that rotate heads."""
    axes = _axes(tables)
    several = "rotate_from(0" if axes == 1 else "rotate_tokens(positions"
    example = (
        "// q: (heads, seq, head_dim), rotated in place" + (f"; positions: (seq, {axes})\n" if axes > 1 else "\n") + ""
        f"bool fine = pe_{several}, seq, q, q, heads, pe_head_dim, seq * pe_head_dim);\n"
        "// (seq, heads, head_dim)\n"
        f"fine = pe_{several}, seq, q, q, heads, heads * pe_head_dim, pe_head_dim);"
    )
    most_tokens = max(1, min(64, BLOCK_BYTES // (tables.width * SIZES[dtype])))
    constants = {"width": tables.width // 2, **shape}
    more = ("rotate", "rotate_from") if axes == 1 else ("rotate",)
    return _by_cos_sin(tables, constants, example, *more, most_tokens=most_tokens)


def cos_sin(tables: Tables, shape: Shape, dtype: str) -> Functions:
    """Return the functions that write cosines and sines."""
    example = f"bool fine = pe_row({'position' if _axes(tables) == 1 else 'positions'}, cos, sin);  // (width) each"
    return _by_cos_sin(tables, shape, example)


FUNCTIONS: Mapping[str, Callable[[Tables, Shape, str], Functions]] = {
    "additive": additive,
    "rotary": rotary,
    "cos_sin": cos_sin,
}
"""By family of encoding."""


def _axes(tables: Tables) -> int:
    """Return how many positions a token has."""
    return max(tables.axes) + 1


def _by_cos_sin(tables: Tables, shape: Shape, example: str, *more: str, **fields: int) -> Functions:
    """Return the functions of a rotary encoding, at one position a token or at an array of several."""
    axes = _axes(tables)
    templates = ("cos_sin", *(["cos_sin_rows"] if axes == 1 else []), *more)
    first = {"width": shape["width"], "pairs": tables.width // 2, "axes": axes}
    return Functions(templates, {**_token(axes), **fields}, {**first, **shape}, example, kernels=bool(more))


def _token(axes: int) -> dict[str, str]:
    """Return how a token's positions are given, and what they are called."""
    if axes == 1:
        words = {"a_token": "a position", "positions": "one each"}
        return {"place": "int64_t position", "pointer": "&position", **words}
    words = {"a_token": f"a token's {axes} positions", "positions": f"(tokens, {axes})"}
    return {"place": f"const int64_t position[{axes}]", "pointer": "position", **words}
