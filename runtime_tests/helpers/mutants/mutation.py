"""One thing that is made wrong in an ONNX file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from onnx import ModelProto

Kind = Literal["rows and elements", "operators", "constants and attributes"]
KINDS: tuple[Kind, ...] = ("rows and elements", "operators", "constants and attributes")


@dataclass(frozen=True)
class Mutation:
    """One thing that was made wrong.

    what: "row zeroed", "operator", ... name: of the tensor, or of the node's first output. op: of the node. before,
    after: the operator, the attribute or the number.
    """

    kind: Kind
    what: str
    name: str
    op: str = ""
    before: str = ""
    after: str = ""

    def __str__(self) -> str:
        changed = f": {self.before} -> {self.after}" if self.before else ""
        return f"{self.what} of {self.op + ' ' if self.op else ''}{self.name}{changed}"


Site = Callable[[ModelProto, np.random.Generator], "Mutation | None"]
"""Makes a thing wrong in a model; None where that would change nothing."""


def constant(name: str, before: str, after: str) -> Mutation:
    """Return the change of a constant."""
    return Mutation("constants and attributes", "constant one more", name, "", before, after)


def attribute(name: str, before: str, after: str) -> Mutation:
    """Return the change of an attribute."""
    return Mutation("constants and attributes", "attribute", name, "", before, after)


def operator(name: str, before: str = "", after: str = "", what: str = "operator") -> Mutation:
    """Return the change of an operator."""
    return Mutation("operators", what, name, "", before, after)
