"""The config class and the modeling module of a model type: by name, without AutoModel, and never remote code."""

import copy
import importlib
import importlib.util
import logging
import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from types import ModuleType

from posenc_models.asking.model import CannotAsk
from posenc_models.config.encodings.parts import choose_part
from posenc_models.config.foreign import HfConfig
from posenc_models.config.rope.rotary import text_part
from posenc_models.config.settings import Json, Settings, short

INSTALL = "pip install 'transformers>=5.0'"
REMOTE = "auto_map"
"""The key under which a config names code of its own."""

MAX_SIZE, MAX_LAYERS = 2**31, 1000
"""The largest size, and the largest number of layers."""
LAYERS, BASES = re.compile(r"layers$|n_layer$|depths?$|blocks$"), re.compile(r"theta|base|_id$|seed")
"""Keys of numbers of layers; keys of numbers that say no size."""


@dataclass(frozen=True)
class Loaded:
    """A config as its own class reads it, and the module of its model's code.

    Args:
        whole: the config of all parts.
        config: the config of the part in question.
        modeling: the module of its model's code.
        library: the library's name and version.
    """

    whole: HfConfig
    config: HfConfig
    modeling: ModuleType
    library: str


def library_of(name: str = "transformers") -> str:
    """Return a library's name and version; raise CannotAsk where it is not installed."""
    try:
        return f"{name} {version(name)}"
    except PackageNotFoundError:
        raise CannotAsk(f"{name} is not installed: {INSTALL}") from None


def load(content: Json, part: str = "") -> Loaded:
    """Return a config as the class of its model type reads it, and the code of its part's model.

    Raises CannotAsk, in one line, where transformers is missing, has no such type, or refuses the config.
    """
    library = library_of()
    whole = config_of(content, library)
    config = _at(whole, path_of(content, part))
    return Loaded(whole, config, modeling_of(config), library)


def path_of(content: Json, part: str) -> tuple[str, ...]:
    """Return the keys that lead to the config of a part; without a part, to that of the language model."""
    chosen = choose_part(content, part or None)
    settings: Settings = text_part(content) if chosen is None else chosen.config
    return tuple(filter(None, settings.path.split(".")))


def config_of(content: Json, library: str) -> HfConfig:
    """Return a config as the class of its model type reads it; raise CannotAsk where no class does."""
    model_type = content.get("model_type")
    if not isinstance(model_type, str) or not model_type:
        raise CannotAsk("the config has no model_type: nothing says whose code to ask")
    names, folder = _names()
    if model_type not in names:
        remote = f"; code that the config names itself ({REMOTE}) is never run" if content.get(REMOTE) else ""
        raise CannotAsk(f"{library} has no model type {short(model_type)}{remote}")
    module = _imported(_configuration(model_type, folder(model_type)), library)
    config_class = getattr(module, names[model_type], None)
    if config_class is None:
        raise CannotAsk(f"{library} has no class {names[model_type]} for model type {model_type}")
    local = {key: value for key, value in content.items() if key not in (REMOTE, "_name_or_path")}
    values = copy.deepcopy(local)  # classes write into their settings
    _check_sizes(values)
    try:
        with quiet():
            config: HfConfig = config_class.from_dict(values)
            return config
    except Exception as error:
        raise CannotAsk(f"{names[model_type]} of {library} refuses the config: {said(error)}") from None


def _configuration(model_type: str, folder: str) -> str:
    """Return the module of a type's config: named as its folder, or, where a folder has several, as the type."""
    package = f"transformers.models.{folder}"
    own = f"{package}.configuration_{re.sub('[-.]', '_', model_type)}"
    # data2vec has configuration_data2vec_audio, _text and _vision
    has_own = importlib.util.find_spec(own) if importlib.util.find_spec(package) else None
    return own if has_own else f"{package}.configuration_{folder}"


def _check_sizes(content: Json, path: str = "") -> None:
    """Raise CannotAsk for sizes that no model has: such a model would take for ever, even without numbers."""
    for key, value in content.items():
        where = f"{path}{key}"
        if isinstance(value, dict):
            _check_sizes(value, f"{where}.")
            continue
        max_size = MAX_LAYERS if LAYERS.search(key) else MAX_SIZE
        numbers = [n for n in (value if isinstance(value, list) else [value]) if isinstance(n, int)]
        if not BASES.search(key) and max(numbers, default=0) > max_size:
            raise CannotAsk(f"{where} is {max(numbers):,}: a model is made of at most {max_size:,}")


def modeling_of(config: HfConfig) -> ModuleType:
    """Return the module of the code of a config's model; raise CannotAsk where it has none."""
    name, library = type(config).__module__.replace(".configuration_", ".modeling_"), library_of()
    borrowed = None if importlib.util.find_spec(name) else class_of_type(config)
    return _imported(name, library) if borrowed is None else _imported(borrowed.__module__, library)


def class_of_type(config: HfConfig) -> type | None:
    """Return the class of another type that a model type uses as its own: InternLM 3 is a Llama; None where none is."""
    names = _imported("transformers.models.auto.modeling_auto", library_of()).MODEL_MAPPING_NAMES
    name = names.get(getattr(config, "model_type", None))
    kind = getattr(_imported("transformers", library_of()), name, None) if isinstance(name, str) else None
    return kind if isinstance(kind, type) else None


def said(error: BaseException) -> str:
    """Return an error in one line."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [""]
    return f"{type(error).__name__}: {' '.join(lines)[:300]}".rstrip(": ")


@contextmanager
def quiet() -> Iterator[None]:
    """Keep warnings, and what transformers logs, from being printed."""
    logger = logging.getLogger("transformers")
    level = logger.level
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        logger.setLevel(logging.ERROR)
        try:
            yield
        finally:
            logger.setLevel(level)


def _names() -> tuple[Mapping[str, str], Callable[[str], str]]:
    """Return the names of config classes by model type, and the function from a type to its folder."""
    auto = _imported("transformers.models.auto.configuration_auto", "transformers")
    return auto.CONFIG_MAPPING_NAMES, auto.model_type_to_module_name


def _imported(name: str, library: str) -> ModuleType:
    """Return a module of a library; raise CannotAsk where it cannot be imported."""
    try:
        with quiet():
            return importlib.import_module(name)
    except Exception as error:
        raise CannotAsk(f"{library} has no {name}: {said(error)}") from None


def _at(config: HfConfig, path: tuple[str, ...]) -> HfConfig:
    """Return the config of a part, by the keys that lead to it."""
    part: HfConfig | None = config
    for key in path:
        part = getattr(part, key, None)
        if part is None or isinstance(part, (str, dict)):
            raise CannotAsk(f"the config's class has no part {'.'.join(path)}")
    assert part is not None
    return part
