"""Modules that version 0.3 moved: importable under their old names for one version more, with a warning.

This file, and what installs it, goes with version 0.4.
"""

import importlib
import importlib.util
import sys
import warnings
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:  # importlib.abc takes longer to import than all of this package
    from importlib.abc import Loader

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
    "posenc_export.validation.planning.sizes": "posenc_export.write.targets.sizes",
    "posenc_export.validation.planning.feeds": "posenc_export.write.targets.feeds",
    "posenc_export.validation.planning.answering": "posenc_export.write.targets.answering",
    "posenc_export.validation": "posenc_export.proof",
    "posenc_export.proving": "posenc_export.proof.foreign",
    **{
        f"posenc_export.{name}": f"posenc_export.proof.{name}"
        for name in ("benchmarks", "cuda", "exporter", "runtimes")
    },
    **{f"posenc_export.{name}": f"posenc_export.write.{name}" for name in ("targets", "formats", "cpp")},
    **{f"posenc_export.{name}": f"posenc_export.show.{name}" for name in ("pages", "plots", "serving")},
    **{f"posenc_export.{name}": f"posenc_export.common.{name}" for name in ("arrays", "errors", "machine", "markdown")},
    "posenc_export.carries": "posenc_export.bundle.carries",
    "posenc_export.reading": "posenc_export.read",
    "posenc_export.extending": "posenc_export.read.extend",
    "posenc_export.cli.text.ports": "posenc_export.write.inputs.ports",
    "posenc_export.cli.text.port_text": "posenc_export.write.inputs.port_text",
    "posenc_export.cli.text.axis_names": "posenc_export.write.inputs.axis_names",
    "posenc_export.cli.text.renames": "posenc_export.write.inputs.renames",
}
"""By a module or package of 0.2, its name now; what is inside keeps its own name, and the first that fits counts."""


class OldNames:
    """Finds modules by their old names. It comes last on `sys.meta_path`: a name that is found costs nothing more."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return how to import a module that moved; None for every other name."""
        new_name = new_name_of(name)
        if not new_name:
            return None
        inside = importlib.util.find_spec(new_name)
        if inside is None:
            return None
        is_package = inside.submodule_search_locations is not None
        loader = MovedPackage(new_name) if is_package else MovedModule(new_name)
        return ModuleSpec(name, cast("Loader", loader), is_package=isinstance(loader, MovedPackage))


def new_name_of(name: str) -> str:
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


def _text(old: str, new: str) -> str:
    return f"{old} is {new} from posenc-export 0.3 on; the old name goes with 0.4"


def install() -> None:
    """Find modules by their old names, from now on."""
    if not any(isinstance(finder, OldNames) for finder in sys.meta_path):
        sys.meta_path.append(OldNames())
