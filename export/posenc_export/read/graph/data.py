"""Tensors of a model whose numbers lie in other files: which they are, and where a model says that they lie."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import onnx
from onnx import TensorProto

if TYPE_CHECKING:
    from google.protobuf.message import Message  # type: ignore[import-untyped]


def external(message: Message) -> Iterator[TensorProto]:
    """Yield the tensors of a model whose numbers lie in other files, in whatever part of it they stand."""
    messages = [message]
    while messages:  # graphs lie in attributes of nodes and in functions too
        message = messages.pop()
        if isinstance(message, TensorProto):
            if message.data_location == TensorProto.EXTERNAL:
                yield message
            continue
        for field, value in message.ListFields():
            if field.message_type is not None:
                messages += value if hasattr(value, "__len__") else [value]


def location_of(tensor: TensorProto) -> str:
    """Return the file that the numbers of a tensor lie in, as the model names it."""
    return next((entry.value for entry in tensor.external_data if entry.key == "location"), "")


def put_in(tensor: TensorProto, name: str, offset: int, length: int) -> None:
    """Say that the numbers of a tensor lie in a file, and where."""
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    del tensor.external_data[:]
    entries = {"location": name, "offset": str(offset), "length": str(length)}
    tensor.external_data.extend(onnx.StringStringEntryProto(key=key, value=value) for key, value in entries.items())
