"""Modules that versions 0.2 and 0.3 moved: importable under their old names for one version more, with a warning."""

import importlib
import importlib.util
import sys
import warnings
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:  # importlib.abc takes longer to import than all of this package
    from importlib.abc import Loader

MOVED = {
    "posenc.families": {
        "posenc": "sums:arithmetic sizes:arithmetic position_ports:where",
        "posenc.joins": "cos_sin apply_rotary bias_modules:scores",
        "posenc.sources.bias": ("bias:encode by_distance query_bias:by_query relative_values:values"),
        "posenc.sources.features": "features:encode",
        "posenc.sources.grid": "grid:encode grid_rows:axis_rows fractions",
        "posenc.sources.interpolated": "interpolation:encode resampled:modules axis_weights:weights",
        "posenc.sources.relative": "relative:encode conformer",
        "posenc.sources.rotary": ("rotary:encode rotary_angles:angles side_by_side ntk_angles:ntk xpos_angles:xpos"),
        "posenc.sources.rows": "learned_tables additive",
        "posenc.sources.window": "window:encode continuous_bias:network resampled_bias:resized decomposed:two_products",
        "posenc.where": "places",
    },
    "posenc.hf": {
        "posenc_models.config": "settings keys",
        "posenc_models.config.encodings": "described rows parts",
        "posenc_models.config.rope": "rotary scaling defaults layers layouts widths",
        "posenc_models.replacing": "replace modules compare",
    },
    "posenc_export.validation": {
        "posenc_export.validation.planning": (
            "scope plan planned:cases probing:probes unlike:eager_refusals sizes feeds left_out:padding"
        ),
        "posenc_export.validation.recording": "record own_module unread nudges choices rounding",
        "posenc_export.validation.judging": "call compare verdict scores half",
        "posenc_export.validation.checks": "catalogue",
        "posenc_export.validation.running": "run progress steps model integrity",
        "posenc_export.validation.stored": "held:matching reading:rows_read rebuilding scripts far:far_positions",
        "posenc_export.validation.apart": "apart:parent child messages",
        "posenc_export.common": "process:child",
        "posenc_export.validation.report": "report schema basis glossary printed result",
    },
    "posenc_export.cli": {
        "posenc_export.cli.commands": (
            "exporting:export benching:bench validating:validate plotting:plot proving:cuda listing:schemes "
            "explaining:explain compatible:compat"
        ),
        "posenc_export.cli.text": "ports port_text axis_names sources words",
        "posenc_export.cli.output": "tables progressing annotations helping printing scheme_page",
    },
}
"""By a package of 0.1, where its modules went: their names, and `old:new` where a module was renamed as well."""

PACKAGES = {
    "posenc.hf.encodings": "posenc_models.config.encodings",
    "posenc.hf.rope": "posenc_models.config.rope",
    "posenc.hf.config": "posenc_models.config",
    "posenc.hf.asking": "posenc_models.asking",
    "posenc.hf.replacing": "posenc_models.replacing",
    "posenc.hf.model_config": "posenc_models.config.model_config",
    "posenc.hf.read": "posenc_models.config.read",
    "posenc.hf.unread": "posenc_models.config.unread",
    "posenc.hf.foreign": "posenc_models.config.foreign",
    "posenc.hf": "posenc_models",
    "posenc_models.causal_lm": "posenc_models.networks.causal_lm",
    "posenc_models.embedding": "posenc_models.networks.embedding",
    "posenc_models.encoder": "posenc_models.networks.encoder",
}
"""By a module or package of 0.2, its name now; what is inside keeps its own name."""

NEW_NAMES = {
    f"{package}.{pair.split(':')[0]}": f"{room}.{pair.split(':')[-1]}"
    for package, rooms in MOVED.items()
    for room, pairs in rooms.items()
    for pair in pairs.split()
}
"""By the full name of a module in 0.1, its full name now."""
GONE = {"posenc.families"}
"""Packages that hold no module any more."""


class OldNames:
    """Finds modules by their old names. It comes last on `sys.meta_path`: a name that is found costs nothing more."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return how to import a module that moved; None for every other name."""
        if name in GONE:
            return ModuleSpec(name, None, is_package=True)
        new_name = NEW_NAMES.get(name) or _in_package(name)
        if not new_name:
            return None
        inside = importlib.util.find_spec(new_name)
        is_package = inside is not None and inside.submodule_search_locations is not None
        loader = MovedPackage(new_name) if is_package and name not in NEW_NAMES else MovedModule(new_name)
        return ModuleSpec(name, cast("Loader", loader), is_package=isinstance(loader, MovedPackage))


def _in_package(name: str) -> str:
    """Return where a module of 0.2 is now; an empty text where it did not move."""
    for old, new in PACKAGES.items():
        if name == old or name.startswith(f"{old}."):
            return new + name.removeprefix(old)
    return ""


class MovedModule:
    """Gives the module under its new name, as it is."""

    def __init__(self, new_name: str) -> None:
        self.new_name = new_name

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Import the module by its new name, with a warning."""
        warnings.warn(_text(spec.name, self.new_name), DeprecationWarning, stacklevel=2)
        module = importlib.import_module(self.new_name)
        self.own_spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Give the module its own spec back, in whose place Python put that of the old name."""
        module.__spec__ = self.own_spec


class MovedPackage:
    """Gives a package that has the names of the one it became, and finds no file by itself: each would be a second."""

    def __init__(self, new_name: str) -> None:
        self.new_name = new_name

    def create_module(self, spec: ModuleSpec) -> None:
        """Warn of the old name."""
        warnings.warn(_text(spec.name, self.new_name), DeprecationWarning, stacklevel=2)

    def exec_module(self, module: ModuleType) -> None:
        """Have the package look its names up in the other."""

        def get(name: str) -> object:
            if name.startswith("__"):
                raise AttributeError(name)
            return getattr(importlib.import_module(self.new_name), name)

        module.__dict__["__getattr__"] = get


def names_of(package: str, new_name: str) -> Callable[[str], object]:
    """Return a `__getattr__` for a package that was a module in 0.1: it finds the names which that module held."""

    def get(name: str) -> object:
        inside = name.startswith("__") or f"{package}.{name}" in NEW_NAMES.values()  # a module of the package
        value = None if inside else getattr(importlib.import_module(new_name), name, None)
        if value is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        warnings.warn(_text(package, new_name), DeprecationWarning, stacklevel=2)
        return value

    return get


def _text(old: str, new: str) -> str:
    since, until = ("0.3", "0.4") if _in_package(old) and old not in NEW_NAMES else ("0.2", "0.3")
    return f"{old} is {new} from posenc-export {since} on; the old name goes with {until}"


def install() -> None:
    """Find modules by their old names, from now on."""
    if not any(isinstance(finder, OldNames) for finder in sys.meta_path):
        sys.meta_path.append(OldNames())
