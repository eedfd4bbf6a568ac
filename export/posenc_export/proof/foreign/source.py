"""What a file is held against, as Python and the command line say it: a target, or another ONNX file."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeAlias

from posenc.ports import Port
from posenc.spec import Spec
from posenc_export.common.arrays import INTEGERS
from posenc_export.common.errors import BadInput
from posenc_export.proof.exporter.options import ExportOptions
from posenc_export.proof.exporter.settings import spec_for, split
from posenc_export.proof.foreign import ProofRequest, prove_file
from posenc_export.proof.foreign.derived import identifier, port_texts, with_ranges
from posenc_export.proof.foreign.in_half import half_of
from posenc_export.proof.foreign.matching import Names
from posenc_export.proof.foreign.recording import IN_FLOAT32
from posenc_export.proof.foreign.reference import running
from posenc_export.proof.report.result import ValidateResult
from posenc_export.read import MEMORY, InspectOptions, Loading, inspect_file, weigh
from posenc_export.write.formats.onnx.foreign import read_foreign
from posenc_export.write.formats.onnx.place import model_file
from posenc_export.write.targets import Target
from posenc_export.write.targets.module import NoInputs
from posenc_export.write.targets.room_for_models import fit_memory
from posenc_models import ModelConfig, ModelFolder
from posenc_models.whole import SENTENCE

if TYPE_CHECKING:
    from torch import nn

Against: TypeAlias = "str | nn.Module | ModelConfig | ModelFolder | Callable[..., nn.Module]"
"""A source of an export, or the path of an ONNX file."""
ONNX = ".onnx"
TEXT = frozenset(("input_ids", "attention_mask"))
"""The integers that go into a language model that counts its positions itself, by the names that tasks have."""
SECONDS = 30.0
"""How long the end of a file is looked for before it is proved."""


class MakeTarget(Protocol):
    """`posenc_export.target`."""

    def __call__(
        self,
        source: Against,
        *,
        spec: Spec | None,
        inputs: tuple[Port, ...],
        seed: int,
        parameters: Mapping[str, object] | None,
    ) -> Target:
        """Return a target."""


@dataclass(frozen=True)
class SourceFile:
    """A file, and what is said of its inputs.

    Args:
        path: The file.
        names: Names of its inputs and outputs that the target has under others.
        read: Reads texts of ports, as `-i` has them, into ports and what is assumed of them.
        ports: What goes into the target, where it is a module, or another file.
        notes: What was assumed of ports.
    """

    path: Path
    names: Names
    read: Callable[[Sequence[str]], tuple[tuple[Port, ...], tuple[str, ...]]]
    ports: tuple[Port, ...] = ()
    notes: tuple[str, ...] = ()


def prove_source(
    file: SourceFile,
    against: Against,
    settings: Mapping[str, object],
    parameters: Mapping[str, object],
    target: MakeTarget,
) -> ValidateResult:
    """Prove a file; see `posenc_export.prove`, which gives the function that makes targets."""
    memory = settings.get("memory", MEMORY)
    if isinstance(memory, bool) or not isinstance(memory, int | float):
        raise BadInput(f"--memory must be a number of GiB, got {memory!r}")
    settings = {name: value for name, value in settings.items() if name != "memory"}
    # whole objects, beside which fields of theirs may stand by name
    whole = {name: settings.get(name) for name in ("spec", "options")}
    spec = whole["spec"] if isinstance(whole["spec"], Spec) else None
    options = whole["options"] if isinstance(whole["options"], ExportOptions) else ExportOptions()
    # whichever of the two it is, its name says it
    parts = split({k: v for k, v in settings.items() if k not in whole}, spec, options, against)
    noted = replace(parts.options, notes=(*parts.options.notes, *file.notes))
    values = {**parts.parameters, **parameters}

    file = replace(file, path=model_file(file.path))
    weigh(file.path, noted.validation.timeout, memory)
    refused = Loading(file.path, memory).refusal()
    if refused:
        raise BadInput(f"{file.path}: {refused}")
    if isinstance(against, str) and against.endswith(ONNX):
        weigh(Path(against), noted.validation.timeout, memory)

    # a file may end before its model does, and refuse what is longer: nothing is wrong with that
    end = None if spec is not None or "max_len" in settings else _end_of(file.path, memory)
    if end is not None and end < parts.spec.max_len:
        words = f"{file.path.name} ends at {end:,} positions, and refuses more: longer calls are not tried"
        noted = replace(noted, notes=(*noted.notes, words))
    # files of other programs compute positions as the model does
    source = against
    if isinstance(against, ModelFolder):
        folder = replace(
            against, exact=False, counts_positions=_counts_positions(file), last_token=_is_of_the_last(file)
        ).as_file(_inputs_of(file), _outputs_of(file))
        source = fit_memory(folder, noted.announce).graph(file.path.stem)
    says_form = spec is not None or {"mode", "method"} & settings.keys()

    def made(fitting: Spec) -> Target:
        try:
            return target(source, spec=fitting, inputs=file.ports, seed=noted.seed, parameters=values)
        except NoInputs:
            # whoever has typed none of them can copy them from the error
            texts = " ".join(f"-i '{text}'" for text in port_texts(read_foreign(file.path)))
            raise BadInput(
                f"{against}: say what goes in, as the file has it: {texts}; with a range, < N, for integers"
            ) from None

    def make() -> Target:
        fitting = spec_for(parts, against, values)
        if end is not None and end < fitting.max_len:
            fitting = replace(fitting, max_len=end)
        if not says_form and (isinstance(against, ModelConfig) or (isinstance(against, str) and ":" not in against)):
            # models compute their angles in float32, and so do files that are made of them
            with suppress(BadInput):
                return made(replace(fitting, mode="dynamic", method=IN_FLOAT32))
        return made(fitting)

    request = ProofRequest(file.path, noted, file.names)
    if not (isinstance(against, str) and against.endswith(ONNX)):
        return prove_file(request, make)
    if values:
        raise BadInput(f"{against} is an ONNX file: it has no parameter {next(iter(values))}")
    length = parts.spec.max_len if end is None else min(end, parts.spec.max_len)
    return _against_file(request, file, Path(against), replace(parts.spec, max_len=length))


def _counts_positions(file: SourceFile) -> bool:
    """Return whether nothing that comes into a file can hold positions: it counts them from its mask, or its cache."""
    whole = {identifier(value.name) for value in read_foreign(file.path).inputs if value.dtype in INTEGERS}
    renamed = {file.names.get(name, name) for name in whole}
    return renamed == TEXT


def _is_of_the_last(file: SourceFile) -> bool:
    """Return whether a file gives the logits of one token, whatever the length of a call."""
    named = {
        file.names.get(value.name, identifier(value.name)): value.axes for value in read_foreign(file.path).outputs
    }
    axes = named.get("logits")
    return axes is not None and len(axes) == 3 and axes[1] == 1


def _inputs_of(file: SourceFile) -> list[str]:
    """Return what a file takes, by the names that tasks have."""
    return [file.names.get(value.name, identifier(value.name)) for value in read_foreign(file.path).inputs]


def _outputs_of(file: SourceFile) -> list[str]:
    """Return what a file gives, by the names that tasks have; a lone output with a vector for each text is SENTENCE."""
    outputs = read_foreign(file.path).outputs
    if len(outputs) == 1 and outputs[0].axes is not None and len(outputs[0].axes) == 2:
        return [SENTENCE]
    return [file.names.get(value.name, identifier(value.name)) for value in outputs]


def _end_of(path: Path, memory: float) -> int | None:
    """Return the length from which on a file refuses calls; None where it has no such end, or none is found in time."""
    try:
        inspection = inspect_file(path, None, None, InspectOptions(timeout=SECONDS, memory=memory))
    except BadInput:
        return None
    lengths = [end.last_right for end in inspection.ends if end.beyond == "refuses" and end.last_right is not None]
    return max(2, min(lengths)) if lengths else None


def _against_file(request: ProofRequest, file: SourceFile, before: Path, spec: Spec) -> ValidateResult:
    """Hold a file against another one, whose inputs are as the user says, else as it says itself."""
    texts = () if file.ports else port_texts(read_foreign(before))
    ports = file.ports or file.read(texts)[0]
    with running(before, ports, half_of(read_foreign(request.path).model)) as reference:
        if not file.ports:
            texts = with_ranges(texts, ports, reference.module, request.options.seed)
            ports, notes = file.read(texts)
            request = request.noted((*notes, *(f"input of {before.name}: {text}" for text in texts)))
        return prove_file(request, lambda: reference.target(ports, spec, request.options.seed))
