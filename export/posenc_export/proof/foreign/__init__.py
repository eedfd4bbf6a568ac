"""The proof of an ONNX file that another program wrote: what an export of ours gets, against a target.

The target gives plan, feeds, refusals and golden outputs, as for an export; the file takes the place of what an export
writes. The bundle that comes of it is validated without trust, in processes of its own, and then removed.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from posenc_export.bundle.manifest import Manifest
from posenc_export.proof.apart.parent import validate_folder
from posenc_export.proof.checks import Context
from posenc_export.proof.exporter.options import ExportOptions, check_options
from posenc_export.proof.foreign.continued import names_of_caches, without_shared
from posenc_export.proof.foreign.matching import Names, match, with_heads_of
from posenc_export.proof.foreign.recording import write_proof
from posenc_export.proof.judging.context import Capture
from posenc_export.proof.judging.verdict import Verdict
from posenc_export.proof.report.result import ValidateResult
from posenc_export.proof.running.model import check_has_model
from posenc_export.proof.running.run import run_checks
from posenc_export.proof.running.run import steps as validation_steps
from posenc_export.proof.runtimes.requests import prepare
from posenc_export.write.formats.onnx.foreign import ForeignFile, read_foreign
from posenc_export.write.targets import Target
from posenc_export.write.targets.ending import advised

__all__ = ["RUNTIMES", "ProofRequest", "prove_file", "steps"]

RUNTIMES = ("ort-cpu", "ort-cuda")
"""What a file runs on where no runtime is named: others lack operators that ONNX Runtime has of its own."""

SHARED = "the model's layers of these numbers have no cache, they share another layer's; nothing is compared with them"
"""What is said of inputs and outputs of a file that are caches of such layers."""


@dataclass(frozen=True)
class ProofRequest:
    """A file, and how it is to be proved.

    Args:
        path: The file.
        options: Seed, budget, notes and validation count.
        names: Names of its inputs and outputs that the target has under others.
    """

    path: Path
    options: ExportOptions
    names: Names = field(default_factory=dict)

    def noted(self, notes: Sequence[str]) -> ProofRequest:
        """Return it with more lines for the report."""
        return replace(self, options=replace(self.options, notes=(*self.options.notes, *notes)))

    @property
    def settled(self) -> ExportOptions:
        """The options of the bundle that is made: ONNX alone, on ONNX Runtime where no runtime is named."""
        return replace(
            self.options,
            formats=("onnx",),
            validate=True,
            cpp=False,
            validation=replace(self.options.validation, default=RUNTIMES),
        )


def steps(request: ProofRequest) -> int:
    """Return how many steps a proof has: loading torch, recording, and those of the validation."""
    options = request.settled
    return 2 + validation_steps(options.formats, options.validation)


def prove_file(request: ProofRequest, make: Callable[[], Target]) -> ValidateResult:
    """Prove that a file gives what a target gives; the file itself is left as it is.

    Args:
        request: The file, and how.
        make: Makes the target.

    Raises BadInput, in one line, where the file cannot be read, or its inputs and outputs are not the target's.
    """
    options = request.settled
    check_options(options)
    file = read_foreign(request.path)
    validation = options.validation
    prepare(validation.runtimes, validation.required_runtimes, validation.progress)
    validation.progress("loading torch")
    target = make()
    if target.rules.registered:
        target = replace(target, encoding=with_heads_of(file, target.encoding, request.names))
    file, shared = without_shared(file, target, request.names)
    if shared:
        options = request.noted([f"{', '.join(value.name for value in shared)}: {SHARED}"]).settled
    check_has_model(validation.require, target.question is not None)
    with tempfile.TemporaryDirectory(prefix="posenc-prove-") as name:
        folder = Path(name).resolve()
        manifest, seen = _write_bundle(file, target, request.names, options, folder)
        del target  # from here on the bundle speaks for itself
        result = validate_folder(folder, validation)
    rows = _of_target(manifest, seen, folder)
    return replace(result, verdicts=(*result.verdicts[:1], *rows, *result.verdicts[1:]))


def _write_bundle(
    file: ForeignFile, target: Target, names: Names, options: ExportOptions, folder: Path
) -> tuple[Manifest, Capture]:
    caches = names_of_caches(file, target, names, options.seed)
    matched = match(file, target.name, target.encoding, {**caches, **names})
    encoding = target.encoding
    if target.rules.known_end:
        return write_proof(file, matched, target, options, folder)
    with advised(lambda: encoding.uncalled().module, encoding.inputs, target.spec.max_len, options.seed):
        return write_proof(file, matched, target, options, folder)


def _of_target(manifest: Manifest, seen: Capture, folder: Path) -> list[Verdict]:
    """Return the rows on the target itself: what is random, or depends on earlier calls, proves nothing."""
    artifact = manifest.artifacts[0]
    return run_checks("onnx", "capture", Context(manifest, artifact, folder / artifact.file, capture=seen))
