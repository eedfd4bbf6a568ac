"""What an export is to write, and its result."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from posenc_export.common.errors import BadInput, bad_input, decoded
from posenc_export.common.limit import ASK_TIMEOUT
from posenc_export.proof.judging.verdict import ValidateOptions, no_progress
from posenc_export.proof.planning.scope import BUDGET, Proof
from posenc_export.proof.report.result import ValidateResult
from posenc_export.proof.runtimes import Progress
from posenc_export.proof.runtimes.requests import check_readable
from posenc_export.write.cpp.names import check_name, problem_of_namespace
from posenc_export.write.formats import (
    ATTENTION_OPS,
    DEFAULT_OPSET,
    FORMATS,
    OPSETS,
    ROTARY_OPS,
    AccuracyLevel,
    AttentionOp,
    CpuIsa,
    RotaryOp,
)
from posenc_export.write.runtime_configs import RuntimeConfigName

if TYPE_CHECKING:
    from posenc_models import ModelFolder

LARGEST_SEED = 2**63 - 1
"""Every generator of random numbers takes it, and a manifest keeps it."""
HEADERS = {"header", "header-c99"}
"""Formats that have a namespace."""


@dataclass(frozen=True)
class ExportOptions:
    """What to write, and whether to validate it.

    Attributes:
        formats: The formats to write.
        opset: That of ONNX files; None for the default, or for the one that the operators below need.
        rotary_op: How ONNX writes a rotation.
        check_positions: Whether ONNX gives NaN for a position out of range where the device cannot refuse it.
        seed: For random weights and inputs.
        budget: Elements of the largest array of a call that is tried.
        validate: Run what was written.
        cpp: Add a folder for C++.
        namespace: The name in C++ of headers, and of the class that `cpp` adds, its file and its target. None means
            posenc_SCHEME in headers, and the name of the bundle's folder in `cpp`.
        force: Replace the folder that is to hold the bundle, whatever is in it.
        announce: Called, before any work, with a line on what that removes.
        notes: Lines for the report, such as what was assumed of inputs.
        validation: How it is validated.
        cpu_isa: What an AOTInductor package is compiled for.
        html: Add the report as a page, report.html.
        ask_timeout: Seconds of computing that the model of a config may take to answer; 0 for any.
        proof: Whether all calls of the plan are tried, as many as take three calls of the longest length, or one of the
            shortest, without float64 and tokens. None means one for a whole model that is not validated, quick for one
            of more than a billion parameters, and full for anything else.
        runtime_config: The runtime whose own config is written beside a whole model; None for none.
        attention_op: How ONNX writes attention of a module or a whole model.
        accuracy_level: What products with weights in blocks are computed in: 1 for float32; 4 for 8 bits, to which what
            goes in is rounded. `export` takes 4 for a whole model with attention_op "microsoft" where nobody says it.
    """

    formats: tuple[str, ...] = ("onnx", "torchscript")
    opset: int | None = None
    rotary_op: RotaryOp = "decomposed"
    check_positions: bool = False
    seed: int = 0
    budget: int = BUDGET
    validate: bool = True
    cpp: bool = False
    namespace: str | None = None
    force: bool = False
    announce: Progress = no_progress
    notes: tuple[str, ...] = ()
    validation: ValidateOptions = field(default_factory=ValidateOptions)
    cpu_isa: CpuIsa = "native"
    html: bool = False
    ask_timeout: float = ASK_TIMEOUT
    proof: Proof | None = None
    runtime_config: RuntimeConfigName | None = None
    attention_op: AttentionOp = "decomposed"
    accuracy_level: AccuracyLevel = 1

    def __post_init__(self) -> None:
        if not 0 <= self.seed <= LARGEST_SEED:
            raise ValueError(f"seed must be from 0 to {LARGEST_SEED}, got {self.seed}")
        if not 0 <= self.ask_timeout < float("inf"):
            raise ValueError(f"ask_timeout must be a finite number of at least 0, got {self.ask_timeout}")
        if self.budget < 1:
            raise ValueError(f"budget must be at least 1 element, got {self.budget}")

    def proof_of(self, whole: bool, large: bool) -> Proof:
        """Return which calls are tried, of a target that is a whole model or not, and large or not."""
        if self.proof is not None:
            return self.proof
        if whole and not (self.validate or self.cpp):
            return "one"
        return "quick" if large else "full"

    @property
    def onnx_opset(self) -> int:
        """The opset of ONNX files."""
        return self.opset or max([DEFAULT_OPSET, *self.operators.values()])

    @property
    def opset_reason(self) -> str:
        """Why the opset is no lower."""
        if self.opset is not None:
            return "as given"
        asked = [option for option, least in self.operators.items() if least == self.onnx_opset > DEFAULT_OPSET]
        return f"{asked[0]} needs it" if asked else "the lowest that is written"

    @property
    def operators(self) -> dict[str, int]:
        """The options that ask for an operator of ONNX, with the lowest opset that has it."""
        asked = {
            f"--rotary-op {self.rotary_op}": ROTARY_OPS[self.rotary_op],
            f"--attention-op {self.attention_op}": ATTENTION_OPS[self.attention_op],
        }
        return {option: least for option, least in asked.items() if not option.endswith(" decomposed")}


@dataclass(frozen=True, repr=False)
class ExportResult(ValidateResult):
    """Where a bundle went, and its verdicts, if it was validated."""

    folder: Path = Path()

    @property
    def passed(self) -> bool:
        """Whether it was validated, nothing failed, and every required runtime ran."""
        return bool(self.verdicts) and super().passed

    def files(self) -> list[str]:
        """Return a line for each graph: where it lies, and how many bytes it has."""
        artifacts = self.manifest.artifacts
        return [f"{decoded(str(self.folder / file.file))}  {file.bytes:,} bytes" for file in artifacts]

    def __str__(self) -> str:
        return "\n".join([super().__str__(), *self.files()])

    def _facts(self) -> list[str]:
        return [*super()._facts(), f"folder={str(self.folder)!r}"]


def _format_problems(options: ExportOptions) -> Iterator[str]:
    """Yield what is asked for and is of no format that is written, or not of all of them."""
    formats = options.formats
    for option in () if "onnx" in formats else options.operators:
        yield f"{option} is an operator of ONNX: give -f onnx with it"
    if options.attention_op == "microsoft" and set(formats) != {"onnx"}:
        yield "--attention-op microsoft is for -f onnx alone: other formats answer what its operator refuses"
    if options.check_positions and "onnx" not in formats:
        yield "--check-positions is a check in ONNX files: give -f onnx with it"
    if options.runtime_config is not None and "onnx" not in formats:
        yield f"--runtime-config {options.runtime_config} is for ONNX files: give -f onnx with it"
    if options.cpu_isa != "native" and "aoti" not in formats:
        yield f"--cpu-isa {options.cpu_isa} is for AOTInductor packages: give -f aoti with it"


def check_options(options: ExportOptions) -> None:
    """Raise BadInput, in one line, for options that contradict one another, before any work is done."""
    formats = options.formats
    if not formats:
        raise BadInput(f"formats are empty: give one or more of {', '.join(FORMATS)}")
    with bad_input():
        for name in formats:
            FORMATS[name]
    check_readable("--runtime", options.validation.runtimes, formats)
    check_readable("--require", options.validation.required_runtimes, formats)
    for name in () if options.validate else options.validation.require:
        raise BadInput(f"--require {name} runs nothing with --no-validate: leave out one of them")
    problem = next(_format_problems(options), None)
    if problem is not None:
        raise BadInput(problem)
    if options.namespace is not None:
        check_namespace(options.namespace, formats, options.cpp)
    if options.cpp and not {"onnx", "torchscript", "aoti"} & set(formats):
        raise BadInput("--cpp is for graphs that C++ loads: give -f onnx, -f torchscript or -f aoti with it")
    if options.opset is not None and options.opset not in OPSETS:
        raise BadInput(f"opset must be in {min(OPSETS)}..{max(OPSETS)}, got {options.opset}")
    for option, least in options.operators.items():
        if options.opset is not None and options.opset < least:
            raise BadInput(f"{option} needs opset {least}, got --opset {options.opset}")


SHORTEST = 3
"""The least max_len: torch.export takes a length to be at least 2, and needs another to vary it."""
OF_WHOLE_MODELS = ("onnx", "torchscript", "pt2", "aoti")
"""Formats that a whole model is written in."""


def check_whole(folder: ModelFolder, options: ExportOptions, max_len: int | None) -> None:
    """Raise BadInput, in one line, for what a folder's config and options rule out together, before torch is loaded.

    Args:
        folder: A whole model.
        options: What is to be written.
        max_len: Up to which length calls are tried, where somebody says it.
    """
    for format_ in options.formats:
        if format_ not in OF_WHOLE_MODELS:
            raise BadInput(f"-f {format_} is for encodings: a whole model is written as {', '.join(OF_WHOLE_MODELS)}")
        if folder.quantize and format_ != "onnx":
            raise BadInput(f"--quantize {folder.quantize} is for ONNX files: leave -f {format_} out")
    if options.accuracy_level != 1 and not folder.quantize:
        raise BadInput(f"--accuracy-level {options.accuracy_level} is for weights in blocks: give --quantize with it")
    if options.attention_op == "microsoft" and not folder.task.cache:
        raise BadInput(
            f"--attention-op microsoft is for decoders with a cache: {folder.path} is for {folder.task.name}"
        )
    config = options.runtime_config
    if config is not None and (not folder.task.cache or folder.task.encoder or folder.task.sense):
        raise BadInput(
            f"--runtime-config {config} is for text-generation with a cache: {folder.path} is for {folder.task.name}"
        )
    if max_len is not None and max_len < SHORTEST and folder.task.kind != "images":
        raise BadInput(f"--max-len {max_len} leaves no length to vary: give {SHORTEST} or more")
    positions = folder.positions
    if max_len is not None and positions is not None and max_len > positions:
        raise BadInput(f"--max-len must be at most the {positions} positions of {folder.path}, got {max_len}")


def check_namespace(namespace: str, formats: tuple[str, ...], cpp: bool) -> None:
    """Raise BadInput where nothing that is written has a namespace, or C++ takes no such name for one."""
    if not cpp and not HEADERS & set(formats):
        headers = " or ".join(f"-f {name}" for name in sorted(HEADERS))
        raise BadInput(f"--namespace is for C++: give {headers}, or --cpp with it")
    if cpp:
        check_name(namespace)
    problem = problem_of_namespace(namespace)
    if problem:
        raise BadInput(f"--namespace must be {problem}, got {namespace!r}")
