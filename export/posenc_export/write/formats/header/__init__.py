"""Headers of C++17 and of C99: tables of hexadecimal constants, and the functions that make rows of them.

Angle addition needs a promise of C++: a product and a sum are two roundings. GCC ignores `STDC FP_CONTRACT`, so that
the header sets `optimize("fp-contract=off")` for its own functions; clang has a pragma inside functions. GCC 12 still
makes `vfmaddsub` of neighbouring sums and differences when it unrolls small loops. Every product therefore lies in one
of two kernels, `a b + c d` and `a b - c d`, each with a fence behind it that the vectoriser cannot look across. Tests
count the fused instructions of both compilers, and see them come back without the pragmas: for aarch64 with GCC's -O3,
15% of the numbers of a row and 38% of those of a rotation would differ.

A header is written from `Encoding.tables()` and the family's functions. C99 and C++17 share every template but the
frame; every name in a template begins with `pe_`, which becomes the header's prefix in C and nothing in C++. Names lie
in the namespace, and inside it in an inline namespace of the content's digest: two headers in one program cannot take
each other's tables (GCC's inline tables are unique in a process, across libraries). A call of many tokens composes the
angles of as many as fit 32 KB of stack, and goes through their heads in memory order: token by token, heads that are a
power of two apart would evict each other from the cache.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from posenc_export.common.arrays import INTEGERS
from posenc_export.common.errors import BadInput, bad_input
from posenc_export.write.cpp import REALS
from posenc_export.write.formats import Digests, Format, WriteRequest
from posenc_export.write.formats.capture import tensor_digests
from posenc_export.write.formats.header.functions import FUNCTIONS, Functions
from posenc_export.write.formats.header.text import C99, CPP17, header_text

if TYPE_CHECKING:
    from posenc.encoding import Encoding, Tables
    from posenc.ports import Port

MAX_NUMBERS = 2**22
"""Numbers of a table above which a compiler takes gigabytes of memory over it."""
MAX_COMMENT = 2**17
"""Characters of a header's first comment."""
INSTEAD = {"rows": "give --dynamic, or less --max-len", "digits": "give fewer features"}


@dataclass(frozen=True)
class Parts:
    """What a header is made of.

    Attributes:
        tables: Its constants.
        functions: What it computes.
        namespace: The name that everything in it goes by.
        dtypes: The dtype of rows, and that of positions.
    """

    tables: Tables
    functions: Functions
    namespace: str
    dtypes: tuple[str, str]


def namespace_of(text: str) -> str:
    """Return the name that everything in a header goes by, or nothing where the text is none that was written here."""
    guard = re.search(r"^#if !defined\((\w+)_H(?:PP)?\)$", text, flags=re.MULTILINE)
    return guard[1] if guard else ""


def stamp_header(path: Path, metadata: Mapping[str, str]) -> None:
    """Put what an export says of itself below the first line of a header."""
    title, _, body = path.read_text("ascii").partition("\n")
    facts = [line for key, value in metadata.items() for line in _comment(f"{key.removeprefix('posenc.')}: {value}")]
    path.write_text("\n".join([title, "//", *facts, "//", body]), "ascii")


def stamped_header(path: Path, key: str) -> str:
    """Return what the comment of a header says under a key, if that is one line, or nothing."""
    with path.open(encoding="ascii", errors="replace") as file:
        comment = file.read(MAX_COMMENT).partition("#if")[0]
    fact = re.search(rf"^//   {re.escape(key.removeprefix('posenc.'))}: (.*)$", comment, flags=re.MULTILINE)
    return fact[1] if fact else ""


def _comment(fact: str) -> list[str]:
    return textwrap.wrap(fact, 116, initial_indent="//   ", subsequent_indent="//     ", break_on_hyphens=False)


def parts(encoding: Encoding, request: WriteRequest) -> Parts:
    """Return what the header of an encoding is made of; raise BadInput, in one line, where there is none."""
    if encoding.family not in FUNCTIONS:
        family = f"encodings of the family {encoding.family} are none of them"
        raise BadInput(f"it has functions for {', '.join(FUNCTIONS)}; {family}")
    dtype = encoding.outputs[0].dtype
    with bad_input():
        tables = encoding.tables()
        _check(tables, dtype)
        functions = FUNCTIONS[encoding.family](tables, encoding.shape or {}, dtype)
    return Parts(tables, functions, request.namespace, (dtype, integers_of(encoding.inputs)))


def integers_of(inputs: tuple[Port, ...]) -> str:
    """Return the dtype of positions in a header: that of the ports that give them, else int64."""
    return next((port.dtype for port in inputs if port.dtype in INTEGERS), "int64")


def _digests(made: Parts) -> Digests:
    return {"functions": str(made.functions).encode(), **tensor_digests(made.tables.arrays)}


HEADER = partial(
    Format,
    capture=parts,
    digests=_digests,
    runs_code=True,
    stamp=stamp_header,
    stamped=stamped_header,
    tells_at_once=True,
)
"""The formats whose files are headers."""


@HEADER("header", file="model.hpp")
def write_header(made: Parts, request: WriteRequest, path: Path) -> None:
    """C++17 header of tables and functions, with the bits of the ONNX graph, for programs without a runtime."""
    path.write_text(header_text(CPP17, made.namespace, made.tables, made.functions, made.dtypes), "ascii")


@HEADER("header-c99", file="model.h")
def write_c_header(made: Parts, request: WriteRequest, path: Path) -> None:
    """C99 header of the same tables and functions, for firmware, and for every language that calls C."""
    path.write_text(header_text(C99, made.namespace, made.tables, made.functions, made.dtypes), "ascii")


def _check(tables: Tables, dtype: str) -> None:
    """Raise ValueError for tables too large to compile, or with numbers that C++ has no constants for."""
    numbers = sum(table.numel() for table in tables.arrays.values())
    if numbers > MAX_NUMBERS:
        raise ValueError(f"its tables have {numbers:,} numbers, more than {MAX_NUMBERS:,}: {INSTEAD[tables.kind]}")
    if not all(bool(table.isfinite().all()) for table in tables.arrays.values()):
        raise ValueError("its table holds numbers that are not finite, for which C++ has no constants")
    if dtype not in REALS:
        raise ValueError(f"C++17 has no {dtype}: give --dtype fp32 or fp64")
