"""The text of a header, in C99 or in C++17: the same tables and functions, in what each has for names and storage."""

from __future__ import annotations

import hashlib
import re
import textwrap
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from posenc.encoding import Tables
from posenc_export.write.cpp import REALS, filled
from posenc_export.write.formats.header.functions import Functions, Shape
from posenc_export.write.formats.header.tables import tables_text


@dataclass(frozen=True)
class Language:
    """What differs between C and C++.

    Args:
        prefix: of a namespace, in an example;
        inside: what names begin with where they are defined.
        storage: what tables and functions are declared with.
        declare: a function's head to its declaration, in C, or to the function in front of it that programs call, in
            C++.
    """

    frame: str
    prefix: str
    inside: str
    storage: Mapping[str, str]
    constants: Callable[[Shape], str]
    declare: Callable[[Head], str]


@dataclass(frozen=True)
class Head:
    """The head of a function that programs call: what it does, what it returns and takes."""

    comment: str
    result: str
    name: str
    parameters: tuple[str, ...]


HEAD = re.compile(r"((?:^//.*\n)+)@api (\w+) pe_(\w+)\(([^)]*)\)", flags=re.MULTILINE)


def heads(text: str) -> Iterator[Head]:
    """Yield the heads of the functions that programs call, as they stand in a text of C."""
    for comment, result, name, parameters in HEAD.findall(text):
        yield Head(comment, result, name, tuple(re.split(r",\s*", parameters)))


def in_integers(text: str, integers: str) -> str:
    """Return a text of C whose positions are of a dtype: templates have int64_t."""
    return re.sub(r"\bint64_t\b", f"{integers}_t", text)


def header_text(
    language: Language, namespace: str, tables: Tables, functions: Functions, dtypes: tuple[str, str]
) -> str:
    """Return the header, with its digest inside the namespace: two of one name cannot be taken for each other.

    `dtypes` are that of rows, and that of positions.
    """
    from posenc import __version__

    dtype, integers = dtypes
    constants = {"end": tables.end, **functions.constants}
    core = filled("holds", **language.storage) if functions.templates else ""
    core += filled("kernels", **language.storage) if functions.kernels or tables.kind == "digits" else ""
    core += tables_text(tables, dtype, language.storage) + functions.text(**language.storage)
    example = functions.example.replace("pe_", language.prefix.format(namespace))
    fields = {
        "version": __version__,
        "namespace": namespace,
        "about": filled("about", last=tables.end - 1, example=textwrap.indent(example, "//   ")).rstrip(),
        "exact": filled("exact").rstrip(),
        "restore": filled("restore").rstrip(),
        "real": REALS[dtype],
        "constants": language.constants(constants),
        "functions": "\n".join(map(language.declare, heads(functions.text(api="@api", internal="", table="")))),
        "core": core.rstrip(),
    }
    fields = {name: in_integers(value, integers) for name, value in fields.items()}
    digest = hashlib.sha256("".join(fields.values()).encode()).hexdigest()[:12]
    text = in_integers(filled(language.frame, digest=digest, **fields), integers)
    return re.sub(r"\bpe_", language.inside.format(namespace), text)


# ---- C99 -------------------------------------------------------------------------------------------------------------


def _c_constants(constants: Shape) -> str:
    return textwrap.indent(",\n".join(f"pe_{name} = {int(value)}" for name, value in constants.items()), "  ")


def _c_declaration(head: Head) -> str:
    return f"{head.comment}{_wrapped(f'pe_API {head.result} pe_{head.name}(', head.parameters)});\n"


C99 = Language(
    frame="frame.h",
    prefix="{}_",
    inside="{}_",
    storage={"internal": "static inline", "api": "pe_API", "table": "static const"},
    constants=_c_constants,
    declare=_c_declaration,
)

# ---- C++17 -----------------------------------------------------------------------------------------------------------


def _cpp_constants(constants: Shape) -> str:
    return "".join(_cpp_constant(name, value) for name, value in constants.items())


def _cpp_constant(name: str, value: int | bool) -> str:
    kind = "bool" if isinstance(value, bool) else "std::int64_t" if name == "end" else "std::size_t"
    return f"inline constexpr {kind} {name} = {str(value).lower()};\n"


def _cpp_function(head: Head) -> str:
    """Return a function in front of that of C: several positions of a token are an array, and usual sizes defaults."""
    taken = tuple(_cpp_parameter(parameter) for parameter in head.parameters)
    result, discard, returned = ("bool", "[[nodiscard]] ", "return ") if head.result == "bool" else ("void", "", "")
    passed = ", ".join(_passed(parameter) for parameter in head.parameters)
    first = _wrapped(f"{discard}inline {result} {head.name}(", taken)
    return filled("in_front", comment=head.comment, first=first, returned=returned, name=head.name, passed=passed)


def _cpp_parameter(parameter: str) -> str:
    text = re.sub(r"const int64_t (\w+)\[(\d+)\]", r"const std::array<int64_t, \2>& \1", parameter)
    text = re.sub(r"\b(int64_t|size_t)\b", r"std::\1", text)
    return re.sub(r"/\* (= \w+) \*/", r"\1", text)


def _passed(parameter: str) -> str:
    """Return what is given for a parameter: its name, of an array its elements."""
    name = re.findall(r"\w+", parameter.partition("/*")[0].partition("[")[0])[-1]
    return f"{name}.data()" if "[" in parameter else name


CPP17 = Language(
    frame="frame.hpp",
    prefix="{}::",
    inside="",
    storage={"internal": "inline", "api": "inline", "table": "inline constexpr"},
    constants=_cpp_constants,
    declare=_cpp_function,
)


def _wrapped(first: str, parameters: tuple[str, ...]) -> str:
    """Return a function's head up to its last parameter, in lines of at most 118 characters."""
    lines = [first]
    for i, parameter in enumerate(parameters):
        text = parameter + ("," if i + 1 < len(parameters) else "")
        glue = "" if i == 0 else " "
        if len(lines[-1]) + len(glue + text) > 105:
            lines.append("    " + text)
        else:
            lines[-1] += glue + text
    return "\n".join(lines)
