"""Bundles of whole models, run by ONNX Runtime alone."""

from collections.abc import Callable, Mapping
from pathlib import Path

import onnxruntime

import posenc_export
from helpers.shared import Once
from posenc.ports import Array
from posenc_export.bundle.folder import Bundle
from posenc_export.proof.callees import Callee
from posenc_export.proof.generation import TokenWriter
from posenc_export.proof.planning.scope import Proof
from posenc_models import ModelFolder

Run = Callable[[Mapping[str, Array]], Mapping[str, Array]]


def run_of(session: onnxruntime.InferenceSession) -> Run:
    """Return a function that runs a session by names."""
    names = [output.name for output in session.get_outputs()]
    return lambda feeds: dict(zip(names, session.run(None, dict(feeds)), strict=True))


def writer_of(folder: Path, change: Callable[[Run], Run] = lambda run: run) -> TokenWriter:
    """Return what writes tokens by the files of a bundle.

    Args:
        folder: the bundle.
        change: makes another function of the one that runs the decoder.
    """
    bundle = Bundle.read(folder)
    decoder, encoder = callee_of(bundle), bundle.encoder()
    return TokenWriter(Callee(change(decoder.call), decoder.inputs), None if encoder is None else callee_of(encoder))


def callee_of(bundle: Bundle) -> Callee:
    """Return the ONNX file of a bundle, loaded."""
    artifact = bundle.manifest.artifact("onnx")
    assert artifact is not None
    session = onnxruntime.InferenceSession(bundle.path(artifact), providers=["CPUExecutionProvider"])
    return Callee(run_of(session), bundle.manifest.inputs)


def proved(once: Once, folder: Path, task: str, proof: Proof = "full") -> Path:
    """The bundle of a model's folder for a task, which was proved in ONNX Runtime.

    Args:
        once: writes it once for all tests.
        folder: the model's.
        task: what the model is for.
        proof: whether few calls are tried, or all.
    """

    def export(place: Path) -> None:
        loaded = ModelFolder.load(folder, task)
        result = posenc_export.export(loaded, to=place, formats=("onnx",), runtimes=("ort-cpu",), proof=proof)
        assert result.passed, str(result)

    return once(f"{folder.name}-{task}-{proof}", export)
