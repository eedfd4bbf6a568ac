"""What is judged: a file of a bundle, what its export saw of the module, and the loaded graph."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from posenc_export.bundle.manifest import Artifact, Manifest
    from posenc_export.proof.runtimes import Runner, Runtime


@dataclass(frozen=True)
class Behaviour:
    """What is wrong with the outputs of a user's module, in words, or nothing.

    Args:
        order: An output depends on earlier calls.
        random: Two copies of the module give unlike outputs.
        noise: Rounding moves the outputs too far.
        choices: The last digit of a float changes a choice that the module makes.
        padding: Outputs that have rows of masked tokens, in words: a text for each mask.
    """

    order: str = ""
    random: str = ""
    noise: str = ""
    choices: str = ""
    padding: tuple[str, ...] = ()


@dataclass(frozen=True)
class Capture:
    """What an export saw of a module.

    Args:
        same_twice: Whether two captures in a row are equal.
        same_after_calls: Whether captures before and after calls are equal.
        changed: Attributes of the module that calls changed.
        behaviour: What is wrong with the outputs of a user's module.
        static: Constants that differ where the module is traced at other sizes.
        stored: By name, dtype and shape, and SHA-256, of the tensors of a user's module.
    """

    same_twice: bool
    same_after_calls: bool
    changed: tuple[str, ...]
    behaviour: Behaviour = Behaviour()
    static: tuple[str, ...] = ()
    stored: Mapping[str, tuple[str, str]] = field(default_factory=dict)


@dataclass(frozen=True)
class Context:
    """What a check may look at; parts that do not apply are None.

    Args:
        manifest: The manifest of the bundle.
        artifact: The file, as the manifest lists it.
        path: The file.
        capture: What the export saw of the module, right after an export.
        runtime: What the graph was loaded by.
        runner: The loaded graph.
        trusted: Whether code in the file may be run.
        named: Whether the runtime was asked for by its name.
        prove: Whether checks that take longer run in full.
        timeout: Seconds that a call of a graph may take; 0 for any.
        elsewhere: The bundle's folder, where the file lies in another.
        tell: Takes the name of a call that a check begins: it then has a time of its own.
    """

    manifest: Manifest
    artifact: Artifact
    path: Path
    capture: Capture | None = None
    runtime: Runtime | None = None
    runner: Runner | None = None
    trusted: bool = False
    named: bool = False
    prove: bool = False
    timeout: float = 0.0
    elsewhere: Path | None = None
    tell: Callable[[str], None] = lambda _: None

    @property
    def folder(self) -> Path:
        """The bundle's folder, where its golden data lie."""
        return self.elsewhere or self.path.parent

    @property
    def captured(self) -> Capture:
        """What the export saw of the module, for checks of the stage `capture`."""
        assert self.capture is not None
        return self.capture

    @property
    def loaded(self) -> tuple[Runner, Runtime]:
        """The loaded graph and its runtime, for checks of the stage `runner`."""
        assert self.runner is not None
        assert self.runtime is not None
        return self.runner, self.runtime
