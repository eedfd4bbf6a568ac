"""Another ONNX file as a target: what it gives is what is expected, and what it refuses is a refusal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from posenc.encoding import CaseLike, Encoding, Tolerance, no_tables
from posenc.ports import Array, Feeds, Integers, Port
from posenc.spec import Spec
from posenc_export.common.errors import BadInput, NoReference
from posenc_export.common.limit import TIMEOUT
from posenc_export.proof.foreign.adapting import write_adapted
from posenc_export.proof.foreign.derived import identifiers
from posenc_export.proof.foreign.matching import Match, Pair, match
from posenc_export.proof.foreign.nudged import nudge_weights
from posenc_export.proof.judging.verdict import NO_REFERENCE
from posenc_export.proof.runtimes import RunFailed, Runner
from posenc_export.proof.runtimes.reference_child import load_reference
from posenc_export.write.formats.onnx.foreign import ForeignFile, read_foreign
from posenc_export.write.targets import Target
from posenc_export.write.targets.outputs import outputs_of

if TYPE_CHECKING:
    from posenc_export.proof.foreign.module import FileModule

NO_TABLES = no_tables("what an ONNX file stores is not known")
WHY_NONE = "another ONNX file has no float64 form"


@dataclass(frozen=True)
class FilePorts:
    """The inputs and outputs of a file."""

    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]


@dataclass(frozen=True)
class Reference:
    """A file that is being run.

    Args:
        file: The file.
        sides: Its inputs and outputs; of an output the name and the dtype alone.
        module: Runs it.
    """

    file: ForeignFile
    sides: FilePorts
    module: FileModule

    def target(self, inputs: tuple[Port, ...], spec: Spec, seed: int) -> Target:
        """Return it as a target, with all that is known of its inputs; raise BadInput where it refuses usual sizes."""
        draft = Encoding("module", self.module, inputs, (), _none, _nothing, _nothing, NO_TABLES)
        shown = outputs_of(lambda: self.module, draft, spec.max_len, seed)
        names = (port.name for port in self.sides.outputs)
        outputs = tuple(replace(port, name=name) for port, name in zip(shown, names, strict=True))
        encoding = replace(draft, outputs=outputs, fresh=lambda: self.module)
        words = f"{NO_REFERENCE}: {WHY_NONE}"
        return Target(self.file.path.name, encoding, replace(spec, mode="dynamic"), {}, reference=words)


@contextmanager
def running(path: Path, ports: Sequence[Port], half: str = "") -> Iterator[Reference]:
    """Run a file in child processes, as it is and with nudged weights, until the end of the block.

    Args:
        path: The file.
        ports: What goes in, under the file's names.
        half: The half dtype of the file that is held against it, or nothing.

    Raises BadInput where the file cannot be read, or loaded.
    """
    from posenc_export.proof.foreign.module import FileModule

    file = read_foreign(path)
    sides, matched = _named(file, tuple(ports))
    with TemporaryDirectory(prefix="posenc-reference-") as name:
        # a file whose weights are moved by an ulp shows what rounding does to its outputs
        folders = [Path(name).resolve() / part for part in ("as-it-is", "nudged", *(("half",) if half else ()))]
        for folder in folders:
            folder.mkdir()
            write_adapted(file, matched, folder)
        for folder, dtype in zip(folders[1:], ("", half), strict=False):
            nudge_weights(folder / "model.onnx", dtype)
        runners = [_runner(path, folder / "model.onnx", sides) for folder in folders]
        module = FileModule(runners[0], runners[1], runners[-1], [port.name for port in sides.inputs])
        yield Reference(file, sides, module)


def _runner(path: Path, copy: Path, sides: FilePorts) -> Runner:
    try:
        return replace(load_reference(copy, sides), limit=TIMEOUT)
    except RunFailed as error:
        raise BadInput(f"{path.name} cannot be run, so that nothing is held against it: {error}") from error


def _named(file: ForeignFile, inputs: tuple[Port, ...]) -> tuple[FilePorts, Match]:
    """Return a file's inputs and outputs under names that bundles take, and how they fit the file."""
    names = identifiers([value.name for value in (*file.inputs, *file.outputs)])
    own = names[len(file.inputs) :]
    outputs = tuple(Port(name, (), value.dtype or "float32") for name, value in zip(own, file.outputs, strict=True))
    pairs = tuple(Pair(port, value) for port, value in zip(outputs, file.outputs, strict=True))
    draft = _without_outputs(inputs)
    return FilePorts(inputs, outputs), Match(match(file, file.path.name, draft, {}).inputs, pairs)


def _without_outputs(inputs: tuple[Port, ...]) -> Encoding:
    from torch import nn

    return Encoding("module", nn.Identity(), inputs, (), _none, _nothing, _nothing, NO_TABLES)


def _none(feeds: Feeds, at: Integers | None = None) -> dict[str, Array]:
    """Raise NoReference: eager is the other file."""
    raise NoReference(WHY_NONE)


def _nothing(case: CaseLike) -> Tolerance:
    """Allow nothing: tolerances are measured."""
    return Tolerance()
