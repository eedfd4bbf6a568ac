"""What a bundle's ports and axes are called in C++, and the types of their elements."""

from __future__ import annotations

import re

from posenc.ports import Axis, Port

TYPES = {
    "float32": "float",
    "float16": "Half",
    "bfloat16": "BFloat16",
    "float64": "double",
    "int64": "std::int64_t",
    "int32": "std::int32_t",
    "bool": "bool",
}
"""What C++ calls the elements of a dtype, inside the namespace posenc."""
_KEYWORDS = """
    alignas alignof and and_eq asm atomic_cancel atomic_commit auto bitand bitor bool break case catch char char8_t
    char16_t char32_t class co_await co_return co_yield compl concept const const_cast consteval constexpr constinit
    continue decltype default delete do double dynamic_cast else enum explicit export extern false float for friend
    goto if inline int long mutable namespace new noexcept not not_eq nullptr operator or or_eq private protected
    public reflexpr register reinterpret_cast requires return short signed sizeof static static_assert static_cast
    struct switch synchronized template this thread_local throw true try typedef typeid typename union unsigned
    using virtual void volatile wchar_t while xor xor_eq
"""
_OURS = "Axes Memory Model View axes i inputs_ linux memory outputs_ posenc session_ std unix view"
RESERVED = frozenset((*_KEYWORDS.split(), *_OURS.split()))
"""Names that C++, compilers or the class itself use."""


def namespace_for(name: str) -> str:
    """Return the namespace of headers of what has a name: of a module's its letters and digits."""
    return re.sub(r"_+", "_", re.sub(r"\W", "_", f"posenc_{name}")).rstrip("_")


def problem_of_namespace(name: str) -> str:
    """Return what a namespace must be and this one is not, or nothing."""
    if not re.fullmatch("[A-Za-z][A-Za-z0-9_]*", name) or "__" in name:
        return "letters, digits and single _, a letter first"
    return "a name that C++ does not use itself" if name in RESERVED - {"posenc"} else ""


def identifier(name: str) -> str:
    """Return what a port or an axis is called in C++: a reserved name gets an underscore."""
    return f"{name}_" if name in RESERVED else name


def dtype_constant(port: Port) -> str:
    """Return the constant of posenc::DType that a port has."""
    return "DType::boolean" if port.dtype == "bool" else f"DType::{port.dtype}"


def qualified_type(port: Port) -> str:
    """Return the type of a port's elements, as one writes it outside the namespace posenc."""
    type_ = TYPES[port.dtype]
    return type_ if type_[0].islower() else f"posenc::{type_}"


def quoted(text: str) -> str:
    """Return a string literal of a text that needs no escapes: a name, or nothing."""
    return f'"{text}"'


def braced(*items: object) -> str:
    """Return a braced list: {a, b}."""
    return "{" + ", ".join(map(str, items)) + "}"


def sizes(port: Port) -> str:
    """Return the sizes of a port's axes in a call, with commas between: axes.batch, axes.seq, 8."""
    return ", ".join(_size(axis) for axis in port.axes)


def _size(axis: Axis) -> str:
    """Return the size of an axis as an expression: a number, a field of `axes`, or a sum of them."""
    if axis.size is not None:
        return str(axis.size)
    return " + ".join(f"axes.{identifier(name)}" for name in axis.terms)
