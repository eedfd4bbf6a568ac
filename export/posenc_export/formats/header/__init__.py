"""A C++17 header: tables of hexadecimal constants, and the functions that make rows of them."""

from __future__ import annotations

import hashlib
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from posenc_export.cpp import REALS, filled
from posenc_export.errors import bad_input
from posenc_export.formats import Request, format_, whole_file
from posenc_export.formats.header.tables import Store, added, turned

if TYPE_CHECKING:
    from torch import Tensor, nn

    from posenc.scheme import Encoding

CONSTANTS: Mapping[str, tuple[str, int]] = {"float32": ("f", 6), "float64": ("", 4)}
"""What constants of a dtype end with, and how many of them fit a line."""


@dataclass(frozen=True)
class Functions:
    """What a program calls: its text, the constants beside it, and how it is used, for the comment on top."""

    text: str
    constants: Mapping[str, int | bool]
    example: str


def refuses(encoding: Encoding) -> str:
    """Return why an encoding cannot be a header, in one line, or nothing."""
    try:
        _parts(encoding)
    except ValueError as error:
        return str(error)
    return ""


def stamp_header(path: Path, metadata: Mapping[str, str]) -> None:
    """Put what an export says of itself below the first line of a header."""
    title, _, rest = path.read_text("ascii").partition("\n")
    facts = [line for key, value in metadata.items() for line in _comment(f"{key.removeprefix('posenc.')}: {value}")]
    path.write_text("\n".join([title, "//", *facts, "//", rest]), "ascii")


def _comment(fact: str) -> list[str]:
    return textwrap.wrap(fact, 116, initial_indent="//   ", subsequent_indent="//     ", break_on_hyphens=False)


@format_("header", file="model.hpp", content=whole_file, stamp=stamp_header, refuses=refuses)
def write_header(encoding: Encoding, request: Request, path: Path) -> None:
    """C++17 header of tables and functions, with the bits of the ONNX graph, for programs without a runtime."""
    with bad_input():
        store, functions = _parts(encoding)
    path.write_text(_text(store, functions, encoding.outputs[0].dtype), "ascii")


def _parts(encoding: Encoding) -> tuple[Store, Functions]:
    """Return the tables and the functions of an encoding; raise ValueError, in one line, where it has none."""
    from posenc.families import additive as positions
    from posenc.families import rotary

    module, dtype = encoding.module, encoding.outputs[0].dtype
    if isinstance(module, (positions.Implicit, positions.Offset, positions.Explicit, positions.Rows, positions.Whole)):
        store, functions = _additive(module.source)
    elif isinstance(module, (rotary.RotateImplicit, rotary.RotateOffset, rotary.RotateExplicit, rotary.RotateGrid)):
        store, functions = _rotating(module.turns, module.rotate)
    elif isinstance(module, (rotary.CosSin, rotary.WholeCosSin)):
        store, functions = _turning(module.turns, module.full, module.interleaved)
    else:
        raise ValueError(f"it takes this package's encodings, and {type(module).__name__} is none of theirs")
    if dtype not in REALS:
        raise ValueError(f"C++17 has no {dtype}: give --dtype fp32 or fp64")
    return store, functions


def _additive(source: nn.Module) -> tuple[Store, Functions]:
    store = added(source)
    example = (
        "bool fine = posenc::rows(0, seq, y);  // the rows themselves, (seq, width)\n"
        "fine = posenc::add(start, seq, x, y);  // x + rows"
    )
    return store, Functions(filled("additive.hpp"), {"width": store.row_width}, example)


def _rotating(turns: nn.Module, rotate: Any) -> tuple[Store, Functions]:
    store = turned(turns)
    constants = {"head_dim": rotate.head_dim, "rotary_dim": rotate.rotary_dim, "interleaved": rotate.interleaved}
    example = (
        "for (std::size_t t = 0; t < seq; ++t) {  // q: (heads, seq, head_dim), rotated in place\n"
        "  posenc::real* head = q + t * posenc::head_dim;\n"
        f"  bool fine = posenc::rotate({_place(store)}, head, head, heads, seq * posenc::head_dim);\n"
        "}"
    )
    return store, _turns(store, store.row_width // 2, constants, example, rotate=True)


def _turning(turns: nn.Module, full: bool, interleaved: bool) -> tuple[Store, Functions]:
    store = turned(turns)
    width = store.row_width if full else store.row_width // 2
    example = f"bool fine = posenc::row({_place(store)}, cos, sin);  // (width) each"
    return store, _turns(store, width, {"interleaved": interleaved}, example, rotate=False)


def _place(store: Store) -> str:
    """Return what tells an example's position."""
    return "{" + ", ".join("abc"[: _count(store)]) + "}" if _count(store) > 1 else "t"


def _count(store: Store) -> int:
    """Return the positions of a token."""
    return max(store.axes) + 1


def _turns(store: Store, width: int, constants: Mapping[str, int | bool], example: str, *, rotate: bool) -> Functions:
    """Return the functions of a rotary encoding, at one position a token or at an array of several."""
    axes = _count(store)
    one = {"place": "std::int64_t", "pointer": "&position", "refused": "!detail::holds(position, 1)"}
    several = {
        "place": f"const std::array<std::int64_t, {axes}>&",
        "pointer": "position.data()",
        "refused": " || ".join(f"!detail::holds(position[{axis}], 1)" for axis in range(axes)),
    }
    how = one if axes == 1 else several
    more = [filled("cos_sin_rows.hpp")] if axes == 1 else []
    more += [filled("apply_rotary.hpp"), filled("rotate.hpp", **how)] if rotate else []
    constants = {"width": width, "pairs": store.row_width // 2, "axes": axes, **constants}
    return Functions(filled("cos_sin.hpp", more="".join(more), **how), constants, example)


# ---- text ------------------------------------------------------------------------------------------------------------


def _text(store: Store, functions: Functions, dtype: str) -> str:
    """Return the header, in a namespace named after all that it says: two of them in one program are two things."""
    from posenc import __version__

    fields = {
        "version": __version__,
        "real": REALS[dtype],
        "end": store.limit,
        "last": store.limit - 1,
        "constants": "".join(_constant(*item) for item in functions.constants.items()),
        "store": _stored(store, dtype),
        "functions": functions.text.rstrip(),
        "example": textwrap.indent(functions.example, "//   "),
    }
    digest = hashlib.sha256("".join(map(str, fields.values())).encode()).hexdigest()[:12]
    return filled("frame.hpp", id=f"e{digest}", guard=f"E{digest}".upper(), **fields)


def _constant(name: str, value: int | bool) -> str:
    kind = "bool" if isinstance(value, bool) else "std::size_t"
    return f"inline constexpr {kind} {name} = {str(value).lower()};\n"


def _stored(store: Store, dtype: str) -> str:
    constants = {name: str(value).lower() for name, value in store.constants.items()}
    tables = "\n".join(line for name, table in store.tables.items() for line in _table(name, table, dtype))
    return filled(f"{store.kind}.hpp", tables=tables, runs=_runs(store.axes), row_width=store.row_width, **constants)


def _runs(axes: list[int]) -> str:
    """Return {axis, first, one past the last} of every run of one axis."""
    found, first = [], 0
    for axis, run in groupby(axes):
        last = first + len(list(run))
        found.append(f"{{{axis}, {first}, {last}}}")
        first = last
    return ", ".join(found)


def _table(name: str, table: Tensor, dtype: str) -> Iterator[str]:
    """Yield the lines of an array: (rows, columns)."""
    suffix, fit = CONSTANTS[dtype]
    yield f"inline constexpr real {name}[{table.shape[0]}][{table.shape[1]}] = {{"
    for row in table.double().tolist():
        texts = [_hexadecimal(value) + suffix for value in row]
        yield "{" + ",\n".join(", ".join(texts[i : i + fit]) for i in range(0, len(texts), fit)) + "},"
    yield "};\n"


def _hexadecimal(value: float) -> str:
    digits, _, exponent = value.hex().partition("p")
    return f"{digits.rstrip('0').rstrip('.') if '.' in digits else digits}p{exponent}"
