"""What was read, as a scheme with parameters that can be typed: behind `posenc-export`, `prove --against`, `extend`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from posenc.formulas.fitting import FITS, Fitted
from posenc.parameters import Value
from posenc_export.reading.recognise.named import Parameter

Parameters = Mapping[str, Parameter]
Words = Iterator[tuple[str, Value]]
PLAIN_TYPES = ("default", "linear", "proportional", "yarn", "llama3")
"""Rope types whose parameters can be read from frequencies."""
LAYOUTS = ("halves", "interleaved")
HELD = ("head_dim", "rotary_dim", "layout", "attention_factor", "rope_theta", "direction")
"""Parameters of a rotation that are not those of its type."""
UNSAID = ("frequencies_dtype", "first_feature", "tables", "slopes", "position_scale")
"""Parameters that no scheme has: numbers that were rounded, or features that do not begin at 0."""


def scheme_of(family: str, name: str, parameters: Parameters) -> str:
    """Return an encoding as it is typed, `rope -p head_dim=128 -p rope_theta=500000`; nothing where no scheme has it.

    Args:
        family: its kind, as an inspection has it.
        name: its form within it.
        parameters: as they were read.
    """
    if name in FITS.names():
        return Fitted(family, name, dict(parameters)).words
    reading = READINGS.get(family)
    if reading is None or any(key in parameters for key in UNSAID):
        return ""
    found = reading(name, parameters)
    return "" if found is None else Fitted(family, found[0], dict(found[1])).words


def _rotary(name: str, parameters: Parameters) -> tuple[str, Words] | None:
    layout, factor = parameters.get("layout"), parameters.get("attention_factor", 1.0)
    if layout not in LAYOUTS or "head_dim" not in parameters or "rope_theta" not in parameters:
        return None
    if name == "mrope":
        order = parameters.get("section_layout")
        known = order in ("sectioned", "interleaved", "time_last") and factor == 1.0
        return ("mrope", _of_sections(parameters)) if known else None
    if name not in PLAIN_TYPES or (name != "yarn" and factor != 1.0):
        return None
    return "rope", _of_head(name, parameters)


def _of_head(name: str, parameters: Parameters) -> Words:
    yield "head_dim", parameters["head_dim"]
    if parameters.get("rotary_dim", parameters["head_dim"]) != parameters["head_dim"] and name != "proportional":
        yield "rotary_dim", parameters["rotary_dim"]
    yield "rope_theta", parameters["rope_theta"]
    yield "layout", parameters["layout"]
    if parameters.get("direction") == "backward":
        yield "direction", "backward"
    if name != "default":
        yield "rope_type", name
        yield from ((key, value) for key, value in parameters.items() if key not in HELD)
    if name == "yarn":
        yield "attention_factor", parameters["attention_factor"]


def _of_sections(parameters: Parameters) -> Words:
    sections = parameters["sections"]
    assert isinstance(sections, tuple)
    yield "head_dim", parameters["head_dim"]
    yield "sections", tuple(int(section) for section in sections)
    yield "section_layout", parameters["section_layout"]
    yield "rope_theta", parameters["rope_theta"]
    yield "layout", parameters["layout"]


def _sinusoidal(name: str, parameters: Parameters) -> tuple[str, Words] | None:
    if parameters.get("first") == "cos":
        return None
    return "sinusoidal", _kept(parameters, ("d_model", "base", "layout", "spacing", "scale", "padding_row"))


def _learned(name: str, parameters: Parameters) -> tuple[str, Words] | None:
    return ("learned", _kept(parameters, ("d_model",))) if name == "table" and "d_model" in parameters else None


def _alibi(name: str, parameters: Parameters) -> tuple[str, Words] | None:
    return "alibi", _kept(parameters, ("heads", "form", "bias_max", "scale", "bfloat16_slopes"))


def _t5(name: str, parameters: Parameters) -> tuple[str, Words] | None:
    sizes = ("heads", "num_buckets", "max_distance", "bidirectional")
    return ("t5_bias", _kept(parameters, sizes)) if "num_buckets" in parameters else None


def _grid(name: str, parameters: Parameters) -> tuple[str, Words] | None:
    if parameters.get("first") == "cos" or ("row_step" in parameters and not parameters.get("normalize")):
        return None
    if name == "sincos_2d":
        renamed = {**parameters, "base": parameters["temperature"]}
        return "sincos_2d", _kept(renamed, ("dim", "base", "order", "spacing"))
    if name == "sine_2d":
        return "sine_2d", _kept(parameters, ("dim", "temperature", "order", "normalize", "scale"))
    return None


def _timestep(name: str, parameters: Parameters) -> tuple[str, Words] | None:
    return "timestep", _kept(parameters, tuple(parameters))


def _kept(parameters: Parameters, names: tuple[str, ...]) -> Words:
    return ((name, parameters[name]) for name in names if name in parameters)


READINGS: Mapping[str, Callable[[str, Parameters], tuple[str, Words] | None]] = {
    "rotary": _rotary,
    "sinusoidal": _sinusoidal,
    "learned": _learned,
    "alibi": _alibi,
    "t5": _t5,
    "grid": _grid,
    "timestep": _timestep,
}
"""By the family of an encoding, its scheme and parameters; None where a scheme has no such form."""
