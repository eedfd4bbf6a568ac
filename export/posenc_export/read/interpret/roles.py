"""What the inputs of a graph are for: tokens, positions, masks, lengths, steps of time, or data."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal, cast

from posenc_export.read.graph import Graph, Input

Role = Literal[
    "tokens",
    "places",
    "mask",
    "bias",
    "types",
    "step",
    "length",
    "last",
    "total",
    "flag",
    "past",
    "audio",
    "data",
    "before",
]
"""`places` are ids of positions, `bias` is a mask that is added to scores, `last` the last index of a sequence, `total`
the length with its past, `before` the number of tokens that are past."""
NAMED: tuple[tuple[str, Role], ...] = (
    (r"seqlens_k", "last"),
    (r"total_seq\w*len", "total"),
    (r"mask|padding", "mask"),
    (r"position|cache_pos|pos_ids|^pos$|^positions?_id", "places"),
    (r"^start|offset|past_len", "before"),
    (r"token_type|segment|type_id|lang|speaker|\bsid\b|^sid$|^spk", "types"),
    (r"past|key_values|kv_cache|^cache|_cache|^mems?\b|^k_|^v_|\.(?:key|value)$", "past"),
    (r"time_?step|^t$|^ts$|sigma|noise_level|^steps?$", "step"),
    (r"(?:^|_)len(?:gths?|s)?$|lengths?$|seqlens|_len_", "length"),
)
"""What names say, for inputs of some element type; the first that fits holds."""
SEVERAL = (2, 3, 4)
"""How many positions a token may have."""
FOR_FLOATS = ("mask", "past", "step")
AUDIO = r"audio|wave|speech|signal|sample|^pcm|input_values|^x$|^input$"


def roles_of(graph: Graph) -> dict[str, Role]:
    """Return what each input is for: as the graph has it decided, else by its operators, else by its name."""
    attended = {**dict(_of_attention(graph)), **graph.roles}
    return {item.name: cast("Role", attended.get(item.name)) or role_of(item) for item in graph.inputs}


def role_of(item: Input) -> Role:
    """Return what an input is for, by its name, its element type and its rank."""
    named = named_role(item.name)
    if item.dtype.kind in "OUS":
        return "data"
    # a single boolean is a choice, such as whether a cache is used
    if item.dtype.kind == "b":
        return "mask" if len(item.shape) > 1 or named == "mask" else "flag"
    if item.dtype.kind in "iu" and item.dtype.itemsize > 1:
        return named or ("tokens" if len(item.shape) > 1 else _short(item))
    # float masks of three axes or more are added to scores
    if named == "mask":
        return "bias" if len(item.shape) > 2 else "mask"
    if named in FOR_FLOATS and (named != "step" or len(item.shape) < 2):
        return named
    if len(item.shape) == 2 and re.search(AUDIO, item.name.lower()):
        return "audio"
    return "data"


def named_role(name: str) -> Role | None:
    """Return what the name of an input says that it is for; None where it says nothing."""
    return next((role for pattern, role in NAMED if re.search(pattern, name.lower())), None)


def rows_axis(item: Input) -> int | None:
    """Return the axis along which each token has several positions, as time, height and width; None without one."""
    fixed = [axis for axis, size in enumerate(item.shape) if isinstance(size, int) and size in SEVERAL]
    others = [axis for axis, size in enumerate(item.shape) if not isinstance(size, int)]
    return fixed[0] if len(fixed) == 1 and len(item.shape) > 1 and others else None


def _short(item: Input) -> Role:
    """Return what a list of integers is for, or a single integer: tokens have names that say so."""
    return "tokens" if len(item.shape) == 1 and re.search("token|input_ids|^ids", item.name.lower()) else "flag"


def _of_attention(graph: Graph) -> Iterator[tuple[str, Role]]:
    """Yield the inputs that GroupQueryAttention takes lengths from."""
    names = {item.name for item in graph.inputs}
    places: dict[int, Role] = {5: "last", 6: "total"}
    for node in graph.nodes:
        if node.op_type == "GroupQueryAttention":
            yield from (
                (node.inputs[i], role)
                for i, role in places.items()
                if node.inputs[i : i + 1] and node.inputs[i] in names
            )
