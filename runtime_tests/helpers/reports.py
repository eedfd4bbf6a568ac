"""Reports made up, and printed."""

import io

from rich.console import Console

from posenc_export.bundle.manifest import Manifest
from posenc_export.cli.output.tables import print_report
from posenc_export.proof.judging.verdict import Against, Basis, Comparison, Verdict
from posenc_export.proof.runtimes import RUNTIMES

BASIS = Basis("0" * 64)
FILE_CHECKS = ("integrity", "purity", "determinism", "static-axis", "structure", "lost-input")
REASONS = ("not built yet: naming it with --runtime does that", "no NVIDIA driver: libcuda.so.1 is not found")
WRONG = "y against reference in batch1-seq2048: off by 0.0079 at [0, 1311, 1], expected at most 3e-07 (and 11 more)"


def compared(against: Against, error: float, ulps: float = 0.0) -> Comparison:
    return Comparison("batch1-seq40", "y", against, error, ulps, 16777215, error < 1e-3)


def report(*more: Verdict) -> list[Verdict]:
    """A report of every file check, and every runtime: each third runs, the others do not for one of two reasons."""
    verdicts = [Verdict("onnx", check, "pass") for check in FILE_CHECKS]
    for i, name in enumerate(RUNTIMES):
        if i % 3:
            verdicts.append(Verdict(name, "agrees", "skip", REASONS[i % 2]))
        else:
            comparisons = (compared("eager", 2.4e-7, 32.0), compared("reference", 2.4e-7))
            verdicts.append(Verdict(name, "agrees", "pass", "1 cases", comparisons))
            verdicts += [Verdict(name, check, "pass") for check in ("provider", "refusal")]
    return [*verdicts, *more]


FAILED = (
    Verdict("torchscript", "lost-input", "fail", "input 'mask' is not used"),
    Verdict("libtorch-cpp-cuda", "agrees", "fail", WRONG, (compared("reference", 7.9e-3),)),
)


def printed(
    manifest: Manifest, verdicts: list[Verdict], width: int, terminal: bool = True, verbose: bool = False
) -> str:
    out = io.StringIO()
    console = Console(file=out, width=width, force_terminal=terminal, color_system=None, highlight=False)
    print_report(console, manifest, verdicts, BASIS, verbose)
    return out.getvalue()
