"""The id that tells a graph from every other graph with the same ports: the SHA-256 of its facts.

The facts of a graph are texts by name: scheme, params.NAME, mode, method, positions, offset, dtype, index_dtype where
it is not int64, table_rows where rows are composed, ends.PORT and ends.PORT.AXIS, inputs, outputs, tensors and, for a
user's own module, code. Every file of a bundle holds them as posenc.NAME beside posenc.id, so that the id can be
computed again from the file: it is the digest of the facts as JSON with sorted keys, without spaces, and with escapes
for all but ASCII. Facts change numbers: the opset, the rotary operator, names of files and the length up to which a
dynamic form is tried are not among them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence

from posenc.ports import Port
from posenc_export.bundle.carries import bounds_of

Facts = Mapping[str, str]
PREFIX = "posenc."
"""The prefix of a fact's name in the metadata of a file."""
ID = f"{PREFIX}id"
SCHEME, TENSORS, CODE, INDEX_DTYPE, TABLE_ROWS = "scheme", "tensors", "code", "index_dtype", "table_rows"


def facts_of(
    made: Mapping[str, object],
    params: Mapping[str, object],
    ports: tuple[Sequence[Port], Sequence[Port]],
    digests: Mapping[str, Mapping[str, bytes]],
) -> dict[str, str]:
    """Return the facts of a graph, those first that explain a difference best.

    Args:
        made: How it is made, the scheme first; None is left out.
        params: The parameters of the scheme.
        ports: Inputs and outputs.
        digests: Digests of the module's tensors by name, and of its code if the module is the user's.

    """
    (scheme, name), *others = made.items()
    facts = {scheme: canonical(name)}
    facts |= {f"params.{key}": canonical(value) for key, value in sorted(params.items())}
    facts |= {key: canonical(value) for key, value in others if value is not None}
    facts |= dict(_ends(ports[0]))
    facts |= {name: "; ".join(map(str, side)) for name, side in zip(("inputs", "outputs"), ports, strict=True)}
    return facts | {name: _digest({k: digest.hex() for k, digest in parts.items()}) for name, parts in digests.items()}


def id_of(facts: Facts) -> str:
    """Return the id of a graph with these facts."""
    return _digest(facts)


def stamps(facts: Facts) -> dict[str, str]:
    """Return the metadata of a file: the id first, then the facts."""
    return {ID: id_of(facts), **{f"{PREFIX}{name}": text for name, text in facts.items()}}


def canonical(value: object) -> str:
    """Return a value as text: a text as it is, else JSON, in which a float without a fraction is an integer."""
    return value if isinstance(value, str) else json.dumps(_whole(value))


def _whole(value: object) -> object:
    if isinstance(value, (list, tuple)):
        return [_whole(element) for element in value]
    # 10000 and 10000.0 are the same parameter, and must give the same id.
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _ends(inputs: Sequence[Port]) -> Iterator[tuple[str, str]]:
    """Yield the bounds of the elements of inputs, and of the sizes of their axes."""
    for port in inputs:
        ends: object = bounds_of(port) or getattr(port.carries, "ends", ()) or getattr(port.carries, "end", None)
        if ends is not None:
            yield f"ends.{port.name}", canonical(ends)
        yield from ((f"ends.{port.name}.{axis.name}", str(axis.most)) for axis in port.axes if axis.most is not None)


def _digest(texts: Mapping[str, str]) -> str:
    return hashlib.sha256(json.dumps(texts, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
