"""The encodings that a config describes, of its own and of the configs in it, and the choice of one."""

from collections.abc import Iterator
from dataclasses import dataclass

from posenc_models.config.encodings import ENCODINGS
from posenc_models.config.encodings.diffusion import DIFFUSION
from posenc_models.config.encodings.rows import Row
from posenc_models.config.encodings.temperature import TEMPERATURES
from posenc_models.config.rope.defaults import class_of, text_type
from posenc_models.config.rope.rotary import TEXT_KEYS, check_rotary, text_part
from posenc_models.config.settings import Json, Settings

PART_KEYS = ("encoder", "decoder", "text_encoder", "audio_encoder", "question_encoder", "generator")
"""Keys of a model's parts; others end in _config."""
CLASS = "_class_name"
"""The key of a model's class in the configs of diffusers: they say no model type."""
PARTS = {("vitmatte", "backbone"): "vitdet"}
"""Model types of parts that say none, and whose class has another name."""
AXIAL = ("rope_2d", "rope_nd", "dinov3")
"""Schemes of rotary encodings of several axes."""


@dataclass(frozen=True)
class ConfigPart:
    """An encoding that a config describes.

    Args:
        name: the name that chooses it; empty for the encoding of the config itself.
        config: the settings that it is read from.
        model_type: its model type, or its class in diffusers.
        row: the row of this type; None where it is rotary.
    """

    name: str
    config: Settings
    model_type: str
    row: Row | None = None

    @property
    def scheme(self) -> str:
        """The name of its scheme; "rotary" for "rope" or "mrope", "no scheme" where none is like it."""
        return "rotary" if self.row is None else self.row.scheme or "no scheme"

    @property
    def absent(self) -> str:
        """The origin of values that the config leaves out."""
        return f"default of {self.kind}"

    @property
    def kind(self) -> str:
        """The model type, or the class, with its key."""
        return f"{_key(self.model_type)} {self.model_type}"


def choose_part(content: Json, name: str | None) -> ConfigPart | None:
    """Return the part of a name, or the only part; None for a config that is rotary itself.

    Raises ValueError, in one line, where there are several or none.
    """
    config = Settings(content)
    model_type = _model_type(content)
    if name is not None:
        called = [part for part in parts_of(config, model_type) if _is_called(part, name)]
        # "text" is the text itself, and not its temperature
        ends = [part for part in called if part.name == name or part.name.rpartition(".")[2] == name]
        return _only(ends or called, config, name)
    # an encoding of the config itself comes before those of the configs in it
    own = [part for part in _own(config, model_type, "") if not part.name]
    # rows of several axes, such as NeoMME's, say more of a type than its rope settings do
    # the class of a model of diffusers says more than a key that language models have, too
    if (
        not own
        and model_type != content.get(CLASS)
        and not _is_axial(model_type)
        and is_rotary(text_part(content).content)
    ):
        return None
    return _only(own or list(parts_of(config, model_type)), config)


def parts_of(config: Settings, model_type: str, name: str = "") -> Iterator[ConfigPart]:
    """Yield the encodings of a config, and of the configs in it."""
    yield from _own(config, model_type, name)
    if model_type not in ENCODINGS and name and is_rotary(config.content):
        yield ConfigPart(name, config, model_type)
    for key, inner in config.content.items():
        if isinstance(inner, dict) and (key.endswith("_config") or key in PART_KEYS):
            yield from _inside(config, key, inner, model_type, name)


def _inside(config: Settings, key: str, inner: Json, outer_type: str, name: str) -> Iterator[ConfigPart]:
    """Yield the encodings of a config inside another one, `outer_type`.

    A rotary language model takes absent keys from the outer config; where the outer class is known, from its own class.
    """
    is_text = key in TEXT_KEYS
    called = "text" if is_text else key.removesuffix("_config")
    named = text_type(outer_type) if is_text and class_of(outer_type) else _by_name(outer_type, called)
    own, path = _model_type(inner), config.path_of(key)
    # published Qwen2.5-VL and Qwen3-VL configs give the vision part the type of the whole
    model_type = named if named and not is_text and own == outer_type else own or named
    # remote code reads absent keys from the outer config
    whole = {"model_type": model_type, **inner} if class_of(outer_type) else {**config.content, **inner}
    if is_text and model_type not in ENCODINGS and is_rotary(whole):
        yield ConfigPart(_join(name, called), Settings(whole, path), model_type)
        yield from _own(Settings(whole, path), model_type, _join(name, called))
    else:
        yield from parts_of(Settings(inner, path), model_type, _join(name, called))


def is_rotary(content: Json) -> bool:
    """Return whether a config is that of a rotary encoding."""
    try:
        check_rotary(content)
    except ValueError:
        return False
    return True


def _own(config: Settings, model_type: str, name: str) -> Iterator[ConfigPart]:
    """Yield the encodings of a config itself."""
    for row in (*ENCODINGS.get(model_type, ()), *TEMPERATURES.get(model_type, ())):
        part = ConfigPart(_join(name, row.part), config, model_type, row)
        if all(condition.holds(config, part.absent) for condition in row.when):
            yield part


def _is_axial(model_type: str) -> bool:
    """Return whether a model type rotates on several axes."""
    return any(row.scheme in AXIAL for row in ENCODINGS.get(model_type, ()))


def _only(parts: list[ConfigPart], config: Settings, name: str | None = None) -> ConfigPart:
    """Return the only part that has a scheme; raise ValueError where none or several have."""
    known = [part for part in parts if part.row is None or not part.row.lacks]
    if len(known) == 1:
        return known[0]
    model_type = _model_type(config.content)
    title = f"the config ({_key(model_type)} {model_type!r})"
    if known:
        names = ", ".join(f"{part.name} ({part.scheme})" for part in known)
        raise ValueError(f"{title} has several encodings: choose one of {names} with --part")
    if parts and parts[0].row is not None:
        raise ValueError(f"{title} cannot be read: {parts[0].row.lacks}")
    if name is not None:
        names = ", ".join(part.name for part in parts_of(config, model_type) if part.name)
        raise ValueError(f"{title} has no part {name!r} with a known encoding: it has {names or 'no parts'}")
    if model_type in ENCODINGS:
        raise ValueError(f"{title} has no encoding of positions: {_failures(config, model_type)}")
    check_rotary(text_part(config.content).content, "; no other encoding is known of this model type")
    raise ValueError(f"{title} has no encoding that is known")


def _failures(config: Settings, model_type: str) -> str:
    """Return in words which conditions do not hold."""
    absent = f"default of {_key(model_type)} {model_type}"
    conditions = [condition for row in ENCODINGS[model_type] for condition in row.when]
    return ", ".join(dict.fromkeys(c.failure(config, absent) for c in conditions if not c.holds(config, absent)))


def _is_called(part: ConfigPart, name: str) -> bool:
    return part.name == name or name in part.name.split(".")


def _model_type(content: Json) -> str:
    """Return the model type, or the class of a model of diffusers; nothing where a config says neither."""
    name = content.get("model_type") or content.get(CLASS)
    return name if isinstance(name, str) else ""


def _key(model_type: str) -> str:
    """Return the key of a model type, or of a class of diffusers."""
    return CLASS if model_type in DIFFUSION else "model_type"


def _by_name(model_type: str, part: str) -> str:
    """Return the model type of a part that says none: `clip` and `vision` are `clip_vision_model`; "" if unknown."""
    if (model_type, part) in PARTS:
        return PARTS[model_type, part]
    first = model_type.replace("-", "_")
    names = (f"{first}_{part}_model", f"{first}_{part}")
    return next((name for name in names if name in ENCODINGS), "")


def _join(*names: str) -> str:
    return ".".join(filter(None, names))
