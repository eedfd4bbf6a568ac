"""Rotary position embedding with a base for each type of layers, as in Gemma 3 and 4, ModernBERT and Olmo 3.

One graph gives the cosines and sines of all of them, cos_TYPE and sin_TYPE: layers that see a window turn by another
base than those that see everything, and some have heads of another width, or are scaled.
"""

import re
import reprlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Literal

from posenc.encoding import CaseLike, Encoding, Probes, Tolerance, ToleranceOf, no_tables
from posenc.joins.layered import FORWARDS
from posenc.parameters import check, parameters_of
from posenc.ports import Array, Feeds, Integers, Port
from posenc.scheme import scheme
from posenc.schemes.rope import rope
from posenc.spec import Spec
from posenc.strict_json import parse

LayerTypes = Annotated[str, "JSON"]
"""A text of JSON: an object with the parameters of "rope" for each type of layers."""
GEMMA3 = (
    '{"full_attention": {"rope_theta": 1000000.0, "rope_type": "linear", "factor": 8.0},'
    ' "sliding_attention": {"rope_theta": 10000.0}}'
)
SMALL = '{"full": {"head_dim": 16, "rope_theta": 1000000.0}, "sliding": {"head_dim": 16}}'
UNLIKE = (
    '{"full": {"head_dim": 32, "rotary_dim": 8, "rope_theta": 1000000.0}, "sliding": {"head_dim": 16},'
    ' "long": {"head_dim": 16, "rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32}}'
)
SHARED = ("layout", "tensor_layout", "output", "width")
"""Parameters of "rope" that no type of layers has for itself."""
MOST_TYPES, WIDEST = 16, 2**16
"""Types of layers, and features of a head, that a text may ask for."""
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
NO_TABLE = "its table is of one base, and there is one for each type of layers: read them one by one with --layer-type"
AS_IN = 'as in {"full": {"rope_theta": 1000000.0}, "sliding": {}}'


@scheme(
    "rope_layers",
    paper="arXiv:2503.19786 (Gemma 3), section 2",
    formula="cos_t[p, i] = cos(p w_t[i]), sin_t[p, i] = sin(p w_t[i]), w_t the frequencies of layer type t",
    models=("Gemma 3", "Gemma 3n", "Gemma 4", "ModernBERT", "Olmo 3"),
    positions="explicit",
    samples=({"layer_types": SMALL}, {"layer_types": UNLIKE, "width": "full", "layout": "interleaved"}),
)
def rope_layers(
    spec: Spec,
    *,
    layer_types: LayerTypes = GEMMA3,
    layout: Literal["halves", "interleaved"] = "halves",
    width: Literal["half", "full"] = "half",
) -> Encoding:
    """Cosines and sines of several bases at the same positions, one for each type of layers.

    Args:
        layer_types: an object of JSON with the parameters of rope by type of layers: head_dim, rotary_dim, rope_theta,
            rope_type and what that takes.
        layout: which features are a pair: "halves" i and i + rotary_dim / 2, "interleaved" 2 i and 2 i + 1.
        width: "half" a column a pair, as fused ops take; "full" a column a feature, as transformers returns.
    """
    layers = {}
    # a text may not ask for other outputs than cosines and sines
    known = {name: parameter for name, parameter in parameters_of(rope).items() if name not in SHARED}
    for name, values in read_layer_types(layer_types).items():
        try:
            parameters = check(values, known, "rope")
            layers[name] = rope(spec, **parameters, layout=layout, output="cos_sin", width=width)
        except ValueError as error:
            raise type(error)(f"layer type {name}: {error}") from None
    return side_by_side(layers)


def read_layer_types(text: object) -> dict[str, Mapping[str, object]]:
    """Return the parameters of each type of layers; raise ValueError, in one line, for any other text."""
    try:
        types = parse(text) if isinstance(text, str) else None
    except ValueError as error:
        raise ValueError(f"layer_types is no JSON: {error}; expected an object, {AS_IN}") from None
    if not isinstance(types, dict) or not types or not all(isinstance(values, dict) for values in types.values()):
        raise ValueError(
            f"layer_types must be an object of JSON with an object for each type, {AS_IN}, got {reprlib.repr(text)}"
        )
    if len(types) > MOST_TYPES:
        raise ValueError(f"layer_types must be at most {MOST_TYPES}, got {len(types)}")
    for name, values in types.items():
        if not NAME.fullmatch(name):
            raise ValueError(f"a layer type is named {name!r}: expected letters, digits and _, with no digit first")
        # a manifest from elsewhere is rebuilt, and its text may ask for any size
        head_dim = values.get("head_dim")
        if isinstance(head_dim, int) and head_dim > WIDEST:
            raise ValueError(f"layer type {name}: head_dim must be at most {WIDEST}, got {head_dim}")
    return types


def side_by_side(layers: Mapping[str, Encoding]) -> Encoding:
    """Return an encoding with the outputs of several, which take the same inputs, named after each."""
    encodings = list(layers.values())
    # of inputs that end at unlike positions, those that end first
    first = min(encodings, key=lambda made: float("inf") if made.end is None else made.end)
    return replace(
        first,
        module=FORWARDS[first.positions or "explicit"]([made.module for made in encodings]),
        outputs=tuple(_named(port, name) for name, made in layers.items() for port in made.outputs),
        reference=_references(layers),
        tolerance=_largest([made.tolerance for made in encodings]),
        eager_tolerance=_largest([made.eager_tolerance for made in encodings]),
        tables=no_tables(NO_TABLE),
        probes=_probes([made.probes for made in encodings]),
        half_safe=next(filter(None, (made.half_safe for made in encodings)), ""),
    )


def _named(port: Port, layer_type: str) -> Port:
    return replace(port, name=f"{port.name}_{layer_type}")


def _references(layers: Mapping[str, Encoding]) -> Callable[[Feeds, Integers | None], dict[str, Array]]:
    """Return the references of all types as one function, under the names of the outputs."""

    def reference(feeds: Feeds, at: Integers | None = None) -> dict[str, Array]:
        return {
            f"{output}_{name}": values
            for name, made in layers.items()
            for output, values in made.reference(feeds, at).items()
        }

    return reference


def _largest(tolerances: Sequence[ToleranceOf]) -> ToleranceOf:
    """Return the largest of several tolerances, field by field: outputs of a call share one."""

    def tolerance(case: CaseLike) -> Tolerance:
        allowed = [tolerance(case) for tolerance in tolerances]
        if all(limit.bits for limit in allowed):
            return allowed[0]
        # one type may be exact to the bit where another is not: it passes any tolerance
        fields = {name: max(getattr(limit, name) for limit in allowed) for name in ("atol", "rtol", "ulps", "vector")}
        return Tolerance(**fields)

    return tolerance


def _probes(probes: Sequence[Probes]) -> Probes:
    """Return what must be tried of any of several encodings."""
    # in order and once each: a case is tried for every length
    lengths = dict.fromkeys(length for probe in probes for length in probe.lengths)
    positions = dict.fromkeys(position for probe in probes for position in probe.positions)
    return Probes(tuple(lengths), tuple(positions))
