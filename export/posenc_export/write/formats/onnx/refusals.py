"""Why torch.onnx cannot write a program: the operator, and the words of the first error in the chain."""

from __future__ import annotations

import re
from collections.abc import Iterator

from posenc_export.common.errors import first_line

TARGET = re.compile(r"translating node %\w+ : .*?target=(?:torch\.ops\.)?([\w.<> ]+?)\]")
"""The operator in an error of torch.onnx amid the chain."""

UNKNOWN = "No ONNX function found"
"""The beginning of its words on an operator that it cannot write."""

WAYS_OUT = {
    "grouped_mm": "give the model's config experts_implementation='batched_mm', whose operators ONNX has",
}
"""What to do about operators that ONNX has not, by a part of their names."""


def why(error: BaseException) -> str:
    """Return at which operator torch.onnx failed and why, as far as the chain of errors says: the end of a sentence."""
    chain = list(_chain(error))
    operators = [match[1].removesuffix(".default") for link in chain if (match := TARGET.search(str(link)))]
    said = first_line(chain[-1])
    said = "ONNX has none like it" if said.startswith(UNKNOWN) else said
    said += next((f": {way}" for name, way in WAYS_OUT.items() if operators and name in operators[-1]), "")
    return f" at {operators[-1]}: {said}" if operators else f": {said}"


def _chain(error: BaseException) -> Iterator[BaseException]:
    """Yield an error, its cause, the cause of that, and so on."""
    link: BaseException | None = error
    while link is not None:
        yield link
        link = link.__cause__ or (None if link.__suppress_context__ else link.__context__)
