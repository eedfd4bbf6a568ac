"""Write each file and ask ONNX Runtime where its nodes would run on CUDA; no kernel runs, and no GPU is needed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from posenc_export.proof.checks.placement import Placed, placed
from posenc_export.proof.cuda.plan import BundlePlan
from posenc_export.proof.cuda.prove import exported
from posenc_export.proof.runtimes import RUNTIMES, Progress

RUNTIME = "cuda-placement"


@dataclass(frozen=True)
class CudaPlacement:
    """Where the nodes of a file would run, and operators that its encoding says have no kernel on CUDA."""

    plan: BundlePlan
    placed: Placed
    not_on_cuda: tuple[str, ...] = ()

    @property
    def failed(self) -> bool:
        """Whether something computes or copies rows that the encoding does not name."""
        return bool(self.placed.problems) and not self.placed.all_by(self.not_on_cuda)


def place(plans: Iterable[BundlePlan], progress: Progress) -> Iterator[CudaPlacement]:
    """Export each file that is planned, and place it; raise Missing where nothing can be placed here."""
    runtime = RUNTIMES[RUNTIME]
    runtime.check()
    for plan in plans:
        progress(f"placing {plan}")
        with TemporaryDirectory(prefix="posenc-cuda-") as scratch:
            bundle = exported(plan, Path(scratch))
            artifact = bundle.manifest.artifact("onnx")
            assert artifact is not None
            path = bundle.path(artifact)
            runner = runtime.open(path, bundle.manifest)
            yield CudaPlacement(plan, placed(runner, path), bundle.manifest.not_on_cuda)
