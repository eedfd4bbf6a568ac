"""Names of bundles, ports and axes in C++, and the types of their elements."""

from __future__ import annotations

import re
from pathlib import Path

from posenc.ports import Axis, Port, is_number
from posenc_export.common.errors import BadInput

TYPES = {
    "float32": "float",
    "float16": "Half",
    "bfloat16": "BFloat16",
    "float64": "double",
    "int64": "std::int64_t",
    "int32": "std::int32_t",
    "bool": "bool",
}
"""The types of elements by dtype, inside the namespace posenc."""
_KEYWORDS = """
    alignas alignof and and_eq asm atomic_cancel atomic_commit auto bitand bitor bool break case catch char char8_t
    char16_t char32_t class co_await co_return co_yield compl concept const const_cast consteval constexpr constinit
    continue decltype default delete do double dynamic_cast else enum explicit export extern false float for friend
    goto if inline int long mutable namespace new noexcept not not_eq nullptr operator or or_eq private protected
    public reflexpr register reinterpret_cast requires return short signed sizeof static static_assert static_cast
    struct switch synchronized template this thread_local throw true try typedef typeid typename union unsigned
    using virtual void volatile wchar_t while xor xor_eq
"""
_OURS = """
    Array Axes Axis BFloat16 Bytes Call DType Decoder DecoderPorts Device Error ErrorKind Fact Graphs Half Limit Memory
    Model Options Padding Port SceneGraphs Session Span Status Text View arrays_ axes changed_ count decoder detail
    expect i inputs_ linux loaded_ memory outputs_ ports_ posenc session_ made_for_ size_ sizes_ std unix view
"""
RESERVED = frozenset((*_KEYWORDS.split(), *_OURS.split()))
"""Names that C++, compilers or the class itself use."""
_OF_PROGRAMS = """
    AxisText add_port all clean describe dtype_v edit_cache elements example find_dtype help install main name_of
    one_line package positions_from_lengths positions_from_past positions_of_batch posenc_session rebuild_cache replay
    session size_of start_from_past test threads value_of visit
"""
TAKEN = RESERVED | frozenset(_OF_PROGRAMS.split())
"""Names that no class of a bundle may have: also those in its namespace, and targets of CMake."""


def namespace_for(name: str) -> str:
    """Return the namespace of the headers of a scheme or a module."""
    # A double underscore is reserved in C++.
    return re.sub(r"_+", "_", re.sub(r"\W", "_", f"posenc_{name}")).rstrip("_")


def problem_of_namespace(name: str) -> str:
    """Return what is expected of a namespace if this name cannot be one, or nothing."""
    if not re.fullmatch("[A-Za-z][A-Za-z0-9_]*", name) or "__" in name:
        return "letters, digits and single _, a letter first"
    return "a name that C++ does not use itself" if name in RESERVED - {"posenc"} else ""


def identifier(name: str) -> str:
    """Return the name of a port or an axis in C++: dots become underscores, and a reserved name gets one."""
    name = spelled(name)
    return f"{name}_" if name in RESERVED else name


def spelled(name: str) -> str:
    """Return a name as part of another in C++, as in `x_size`: past_key_values.0.key is past_key_values_0_key."""
    return name.replace(".", "_")


def check_name(name: str) -> None:
    """Raise BadInput if a name cannot be a namespace, a file and a target at once."""
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9]*(_[A-Za-z0-9]+)*", name):
        raise BadInput(f"--namespace is {name!r}: expected letters, digits and single underscores between them")
    if name in TAKEN or re.fullmatch(r"v\d+", name):
        raise BadInput(f"--namespace is {name!r}, which C++, CMake or the session uses: choose another")


def default_name(folder: Path) -> str:
    """Return the name of a bundle in C++ by its folder: `vision-rope` is vision_rope."""
    name = "_".join(re.findall(r"[A-Za-z0-9]+", folder.name))
    # A namespace must begin with a letter: 3d-rope is model_3d_rope.
    name = name if name[:1].isalpha() else "_".join(filter(None, ("model", name)))
    return f"{name}_model" if name in TAKEN or re.fullmatch(r"v\d+", name) else name


def dtype_constant(port: Port) -> str:
    """Return the constant of posenc::DType that a port has."""
    return "DType::boolean" if port.dtype == "bool" else f"DType::{port.dtype}"


def qualified_type(port: Port) -> str:
    """Return the type of a port's elements, as one writes it outside the namespace posenc."""
    return qualified(TYPES[port.dtype])


def qualified(type_: str) -> str:
    """Return a type of `TYPES` as one writes it outside the namespace posenc."""
    return type_ if type_[0].islower() else f"posenc::{type_}"


def quoted(text: str) -> str:
    """Return a string literal of a text that needs no escapes: a name, or nothing."""
    return f'"{text}"'


def literal(text: str) -> str:
    """Return a string literal of any text, in UTF-8; a surrogate, which a stranger's name may have, is its bytes."""
    # Octal escapes end after three digits, hexadecimal ones take every digit that follows; \\? avoids trigraphs.
    encoded = text.encode(errors="surrogatepass")
    plain = (chr(byte) if 32 <= byte < 127 and chr(byte) not in '"\\?' else f"\\{byte:03o}" for byte in encoded)
    return f'"{"".join(plain)}"'


def braced(*items: object) -> str:
    """Return a braced list: {a, b}."""
    return "{" + ", ".join(map(str, items)) + "}"


def sizes(port: Port) -> str:
    """Return the sizes of a port's axes in a call, with commas between: axes.batch, axes.seq, 8."""
    return ", ".join(_size(axis) for axis in port.axes)


def _size(axis: Axis) -> str:
    """Return the size of an axis as an expression: a number, a field of `axes`, or a sum of products of them."""
    if axis.size is not None:
        return str(axis.size)
    return " + ".join(" * ".join(map(_factor, term.split("*"))) for term in axis.terms)


def _factor(name: str) -> str:
    return name if is_number(name) else f"axes.{identifier(name)}"
