"""A C++17 header: tables of hexadecimal constants, and the functions that make rows of them."""

from __future__ import annotations

import hashlib
import textwrap
from collections.abc import Iterator, Mapping
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from posenc_export.cpp import REALS, filled
from posenc_export.errors import bad_input
from posenc_export.formats import Digests, Request, format_
from posenc_export.formats.capture import tensor_digests
from posenc_export.formats.header.functions import FUNCTIONS, Functions

if TYPE_CHECKING:
    from torch import Tensor

    from posenc.encoding import Encoding, Tables

MOST = 2**22
"""Numbers of a table above which a compiler takes gigabytes of memory over it."""
INSTEAD = {"rows": "give --dynamic, or less --max-len", "digits": "give fewer features"}
CONSTANTS: Mapping[str, tuple[str, int]] = {"float32": ("f", 6), "float64": ("", 4)}
"""What constants of a dtype end with, and how many of them fit a line."""


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


def parts(encoding: Encoding, request: Request) -> tuple[Tables, Functions]:
    """Return the tables and the functions of an encoding; raise BadInput, in one line, where it has none."""
    with bad_input():
        return _parts(encoding)


def _digests(made: tuple[Tables, Functions]) -> Digests:
    tables, functions = made
    return {"functions": str(functions).encode(), **tensor_digests(tables.arrays)}


@format_(
    "header",
    file="model.hpp",
    capture=parts,
    digests=_digests,
    runs_code=True,
    stamp=stamp_header,
    refuses=refuses,
)
def write_header(made: tuple[Tables, Functions], encoding: Encoding, request: Request, path: Path) -> None:
    """C++17 header of tables and functions, with the bits of the ONNX graph, for programs without a runtime."""
    tables, functions = made
    path.write_text(_text(tables, functions, encoding.outputs[0].dtype), "ascii")


def _parts(encoding: Encoding) -> tuple[Tables, Functions]:
    """Return the tables and the functions of an encoding; raise ValueError, in one line, where it has none."""
    if encoding.family not in FUNCTIONS:
        raise ValueError(f"it has functions for {', '.join(FUNCTIONS)}; a {encoding.family} is none of them")
    tables = encoding.tables()
    _check(tables)
    dtype = encoding.outputs[0].dtype
    if dtype not in REALS:
        raise ValueError(f"C++17 has no {dtype}: give --dtype fp32 or fp64")
    return tables, FUNCTIONS[encoding.family](tables, encoding.shape or {})


def _check(tables: Tables) -> None:
    """Raise ValueError for tables too large to compile, or with numbers that C++ has no constants for."""
    numbers = sum(table.numel() for table in tables.arrays.values())
    if numbers > MOST:
        raise ValueError(f"its tables have {numbers:,} numbers, more than {MOST:,}: {INSTEAD[tables.kind]}")
    if not all(bool(table.isfinite().all()) for table in tables.arrays.values()):
        raise ValueError("its table holds numbers that are not finite, for which C++ has no constants")


# ---- text ------------------------------------------------------------------------------------------------------------


def _text(tables: Tables, functions: Functions, dtype: str) -> str:
    """Return the header, in a namespace named after all that it says: two of them in one program are two things."""
    from posenc import __version__

    fields = {
        "version": __version__,
        "real": REALS[dtype],
        "end": tables.end,
        "last": tables.end - 1,
        "constants": "".join(_constant(*item) for item in functions.constants.items()),
        "store": _stored(tables, dtype),
        "functions": functions.text.rstrip(),
        "example": textwrap.indent(functions.example, "//   "),
    }
    digest = hashlib.sha256("".join(map(str, fields.values())).encode()).hexdigest()[:12]
    return filled("frame.hpp", id=f"e{digest}", guard=f"E{digest}".upper(), **fields)


def _constant(name: str, value: int | bool) -> str:
    kind = "bool" if isinstance(value, bool) else "std::size_t"
    return f"inline constexpr {kind} {name} = {str(value).lower()};\n"


def _stored(tables: Tables, dtype: str) -> str:
    arrays = "\n".join(line for name, table in tables.arrays.items() for line in _array(name, table, dtype))
    fields = {"tables": arrays, "runs": _runs(tables.axes), "row_width": tables.width}
    if tables.kind == "rows":
        return filled("table.hpp", **fields)
    low, mid = tables.digits
    interleaved = str(tables.layout == "interleaved").lower()
    return filled("digits.hpp", row_interleaved=interleaved, low_rows=low, mid_rows=mid, **fields)


def _runs(axes: tuple[int, ...]) -> str:
    """Return {axis, first, one past the last} of every run of one axis."""
    runs, first = [], 0
    for axis, run in groupby(axes):
        end = first + len(list(run))
        runs.append(f"{{{axis}, {first}, {end}}}")
        first = end
    return ", ".join(runs)


def _array(name: str, table: Tensor, dtype: str) -> Iterator[str]:
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
