"""What is judged: a file of a bundle, what its export saw of the module, and the loaded graph."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from posenc_export.bundle.manifest import Artifact, Manifest
    from posenc_export.runtimes import Runner, Runtime


@dataclass(frozen=True)
class Behaviour:
    """What is wrong with what a module gives, in words, or nothing.

    order: an output depends on earlier calls. random: two copies give other outputs. noise: rounding moves it too far.
    choices: where the last digit of a float chooses what it gives. padding: outputs of tokens that masks leave out.
    """

    order: str = ""
    random: str = ""
    noise: str = ""
    choices: str = ""
    padding: tuple[str, ...] = ()


@dataclass(frozen=True)
class Capture:
    """What an export saw of a module: whether captures in a row, and around calls, agree; what calls changed.

    static: constants that are others where it is traced at other sizes. stored: digests of a user's module's tensors.
    """

    same_twice: bool
    same_after_calls: bool
    changed: tuple[str, ...]
    behaviour: Behaviour = Behaviour()
    static: tuple[str, ...] = ()
    stored: Mapping[str, tuple[str, str]] = field(default_factory=dict)


@dataclass(frozen=True)
class Context:
    """What a check may look at; a part that does not apply is None.

    trusted: whether code in the file may be run. prove: whether what takes longer is to run too. timeout: seconds that
    a call of a graph may take, 0 for any.
    """

    manifest: Manifest
    artifact: Artifact
    path: Path
    capture: Capture | None = None
    runtime: Runtime | None = None
    runner: Runner | None = None
    trusted: bool = False
    prove: bool = False
    timeout: float = 0.0

    @property
    def captured(self) -> Capture:
        """What the export saw; only where there was one."""
        assert self.capture is not None
        return self.capture

    @property
    def loaded(self) -> tuple[Runner, Runtime]:
        """The loaded graph and its runtime; only where there is one."""
        assert self.runner is not None
        assert self.runtime is not None
        return self.runner, self.runtime
