"""What was read, as a scheme with parameters that can be typed: behind `posenc-export`, and `prove --against`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from posenc.formulas.fitting import Form, Parameter

Parameters = Mapping[str, Parameter]
Words = Iterator[tuple[str, Parameter]]
LAYOUTS = ("halves", "interleaved")
HELD = ("head_dim", "rotary_dim", "layout", "attention_factor", "rope_theta", "direction")
"""Parameters of a rotation that are not those of its type."""
UNSAID = ("frequencies_dtype", "first_feature", "tables", "slopes", "position_scale", "class_tokens")
"""Parameters that no scheme has: rounded numbers, features that do not begin at 0, tokens before those of a grid."""


def scheme_of(form: Form) -> str:
    """Return a form as it is typed, `rope -p head_dim=128 -p rope_theta=500000`; nothing where no scheme has it."""
    if form.line:
        return form.line
    reading = READINGS.get(form.family)
    if reading is None or any(key in form.parameters for key in UNSAID):
        return ""
    found = reading(form.name, form.parameters)
    return "" if found is None else replace(form, scheme=found[0], typed=dict(found[1])).line


def _rotary(name: str, parameters: Parameters) -> tuple[str, Words] | None:
    reading = ROTATIONS.get(name)
    if reading is None or parameters.get("layout") not in LAYOUTS or not {"head_dim", "rope_theta"} <= set(parameters):
        return None
    scheme, words_of, has_factor = reading
    if not has_factor and parameters.get("attention_factor", 1.0) != 1.0:
        return None
    return scheme, words_of(parameters)


def _default(parameters: Parameters) -> Words:
    yield "head_dim", parameters["head_dim"]
    if parameters.get("rotary_dim", parameters["head_dim"]) != parameters["head_dim"]:
        yield "rotary_dim", parameters["rotary_dim"]
    yield from _kept(parameters, ("rope_theta", "layout", "direction"))


def _of_type(name: str) -> Callable[[Parameters], Words]:
    """Return how a rotation of a rope type is read: with the parameters of the type."""

    def words(parameters: Parameters) -> Words:
        # a share of the head is a parameter of its own
        shares = "partial_rotary_factor" in parameters
        yield from _default({k: v for k, v in parameters.items() if not (shares and k == "rotary_dim")})
        yield "rope_type", name
        yield from ((key, value) for key, value in parameters.items() if key not in HELD)

    return words


def _with_factor(parameters: Parameters) -> Words:
    """Return a rotation of yarn, whose factor of cosines and sines is a parameter."""
    yield from _of_type("yarn")(parameters)
    yield "attention_factor", parameters["attention_factor"]


def _of_sections(parameters: Parameters) -> Words:
    sections = parameters["sections"]
    assert isinstance(sections, tuple)
    yield "sections", tuple(int(section) for section in sections)
    yield from _kept(parameters, ("head_dim", "section_layout", "rope_theta", "layout"))


def _of_places(parameters: Parameters) -> Words:
    return _kept(parameters, ("head_dim", "rope_theta", "layout"))


ROTATIONS: Mapping[str, tuple[str, Callable[[Parameters], Words], bool]] = {
    "default": ("rope", _default, False),
    "linear": ("rope", _of_type("linear"), False),
    "proportional": ("rope", _of_type("proportional"), False),
    "llama3": ("rope", _of_type("llama3"), False),
    "yarn": ("rope", _with_factor, True),
    "mrope": ("mrope", _of_sections, False),
    "rope_2d": ("rope_2d", _of_places, False),
    "dinov3": ("dinov3", _of_places, False),
}
"""By the form of a rotation, its scheme, how its parameters are said, and whether one multiplies cosines and sines."""


def _sinusoidal(name: str, parameters: Parameters) -> tuple[str, Words] | None:
    if "first" in parameters:
        return None
    return "sinusoidal", _kept(parameters, ("d_model", "base", "layout", "spacing", "scale", "padding_row"))


def _learned(name: str, parameters: Parameters) -> tuple[str, Words] | None:
    return ("learned", _kept(parameters, ("d_model",))) if "d_model" in parameters else None


def _alibi(name: str, parameters: Parameters) -> tuple[str, Words] | None:
    return "alibi", _kept(parameters, ("heads", "form", "bias_max", "scale", "bfloat16_slopes"))


def _t5(name: str, parameters: Parameters) -> tuple[str, Words] | None:
    sizes = ("heads", "num_buckets", "max_distance", "bidirectional")
    return ("t5_bias", _kept(parameters, sizes)) if "num_buckets" in parameters else None


def _grid(name: str, parameters: Parameters) -> tuple[str, Words] | None:
    names = GRIDS.get(name)
    # steps that are no whole numbers are those of a normalized grid, or of none that a scheme has
    if names is None or "first" in parameters or ("row_step" in parameters and "normalize" not in parameters):
        return None
    return name, ((names[key], parameters[key]) for key in names if key in parameters)


GRIDS: Mapping[str, Mapping[str, str]] = {
    "sincos_2d": {"dim": "dim", "temperature": "base", "order": "order", "spacing": "spacing"},
    "sine_2d": {key: key for key in ("dim", "temperature", "order", "normalize", "scale")},
}
"""By the form of a grid of sines, what a scheme calls each parameter."""


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
