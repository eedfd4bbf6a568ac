"""By which id a graph is told from every other graph with the same ports: the SHA-256 of its facts.

The facts of a graph are texts by name: scheme, params.NAME, mode, method, positions, offset, dtype, ends.PORT and
ends.PORT.AXIS, inputs, outputs, tensors and, of a user's own module, code. Every file of a bundle holds each of them as
posenc.NAME beside posenc.id, so that the id can be computed again from the file: it is the digest of the facts as JSON
with sorted keys, no spaces and escapes for whatever is not ASCII. What does not change the numbers is no fact: opset,
rotary operator, names of files, the length up to which a dynamic form is tried.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence

from posenc.ports import Port
from posenc_export.carries import bounds_of

Facts = Mapping[str, str]
PREFIX = "posenc."
"""What the name of a fact begins with in the metadata of a file."""
ID = f"{PREFIX}id"
SCHEME, TENSORS, CODE = "scheme", "tensors", "code"


def facts_of(
    made: Mapping[str, object],
    params: Mapping[str, object],
    ports: tuple[Sequence[Port], Sequence[Port]],
    digests: Mapping[str, Mapping[str, bytes]],
) -> dict[str, str]:
    """Return the facts of a graph, in the order in which a difference is to be looked for.

    made: how it is made, the scheme first, beside the parameters `params`; None says nothing and is left out.
    ports: inputs and outputs. digests: of the module's tensors by their names, and of its code where that is its own.
    """
    (scheme, name), *others = made.items()
    facts = {scheme: canonical(name)}
    facts |= {f"params.{key}": canonical(value) for key, value in sorted(params.items())}
    facts |= {key: canonical(value) for key, value in others if value is not None}
    facts |= dict(_ends(ports[0]))
    facts |= {side: "; ".join(map(str, of)) for side, of in zip(("inputs", "outputs"), ports, strict=True)}
    return facts | {name: _digest({key: one.hex() for key, one in of.items()}) for name, of in digests.items()}


def id_of(facts: Facts) -> str:
    """Return the id of a graph with these facts."""
    return _digest(facts)


def stamps(facts: Facts) -> dict[str, str]:
    """Return what a file holds: the id first, then the facts, each under its name in metadata."""
    return {ID: id_of(facts), **{f"{PREFIX}{name}": text for name, text in facts.items()}}


def canonical(value: object) -> str:
    """Return a value as text: a text as it is, else JSON, in which a float without a fraction is a whole number."""
    return value if isinstance(value, str) else json.dumps(_whole(value))


def _whole(value: object) -> object:
    if isinstance(value, (list, tuple)):
        return [_whole(one) for one in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _ends(inputs: Sequence[Port]) -> Iterator[tuple[str, str]]:
    """Yield what inputs may hold, and how long their axes may be, where that ends."""
    for port in inputs:
        ends: object = bounds_of(port) or getattr(port.carries, "ends", ()) or getattr(port.carries, "end", None)
        if ends is not None:
            yield f"ends.{port.name}", canonical(ends)
        yield from ((f"ends.{port.name}.{axis.name}", str(axis.most)) for axis in port.axes if axis.most is not None)


def _digest(texts: Mapping[str, str]) -> str:
    return hashlib.sha256(json.dumps(texts, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
