"""Why torch.onnx writes no graph of a program: the operator, and what the first error of a chain says of it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from posenc_export.errors import first_line

TARGET = re.compile(r"translating node %\w+ : .*?target=(?:torch\.ops\.)?([\w.<> ]+?)\]")
"""How torch.onnx names the operator that it cannot write, in an error amid the chain."""

UNKNOWN = "No ONNX function found"
"""How its words begin where it knows no way to write an operator; they go on with how torch calls it."""


def why(error: BaseException) -> str:
    """Return at which operator torch.onnx failed and why, as far as the chain of errors says: the end of a sentence."""
    chain = list(_chain(error))
    operators = [match[1].removesuffix(".default") for one in chain if (match := TARGET.search(str(one)))]
    said = first_line(chain[-1])
    said = "ONNX has none like it" if said.startswith(UNKNOWN) else said
    return f" at {operators[-1]}: {said}" if operators else f": {said}"


def _chain(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and what each came of, the first of them last."""
    one: BaseException | None = error
    while one is not None:
        yield one
        one = one.__cause__ or (None if one.__suppress_context__ else one.__context__)
