"""Whether a graph agrees with the model's own code, for a config that was read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from posenc_export.bundle.manifest import AskedModel, Manifest
from posenc_export.common.errors import BadInput
from posenc_export.proof.judging.scores import SCORES
from posenc_export.proof.judging.verdict import MODEL, Comparison, Verdict

SUBJECT = "config"
"""The subject of the row on a model that was not asked."""


def unasked(manifest: Manifest) -> Iterator[Verdict]:
    """Yield a row where the model was not asked: a failure where the process that asks it crashed."""
    model = manifest.model
    if model is not None and model.unasked:
        yield Verdict(SUBJECT, MODEL, "fail" if model.crashed else "skip", model.unasked)


def against_model(name: str, model: AskedModel, comparisons: Sequence[Comparison]) -> Iterator[Verdict]:
    """Yield the row on how a runtime's outputs agree with the model's, where it was asked."""
    if model.unasked:
        return
    wrong = [comparison for comparison in comparisons if not comparison.passed]
    if not comparisons:
        yield Verdict(name, MODEL, "fail", f"{model.line}: {model.difference or 'no case was compared'}")
        return
    if not wrong:
        cases = len({comparison.case for comparison in comparisons})
        yield Verdict(name, MODEL, "pass", f"{model.line}: {cases} cases", tuple(comparisons))
        return
    first, more = wrong[0], f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""
    where = f"{first.output} in {first.case}: {first.reason}{more}"
    difference = f"; {model.difference}" if model.difference else _by_scores(comparisons)
    yield Verdict(name, MODEL, "fail", f"{model.line}: {where}{difference}", tuple(comparisons))


def _by_scores(comparisons: Sequence[Comparison]) -> str:
    """Return, in words, that scores agree though rotated heads do not: attention is right, cached keys are wrong."""
    of_scores = [comparison for comparison in comparisons if comparison.output == SCORES]
    if not of_scores or not all(comparison.passed for comparison in of_scores):
        return ""
    return "; scores q k^T agree: features have another order, other signs or scales, which attention does not see"


def check_has_model(required: Sequence[str], has_config: bool) -> None:
    """Raise BadInput where a model is required and no config was read."""
    if MODEL in required and not has_config:
        raise BadInput("--require model needs --from-hf, or a bundle that --from-hf made: this one is not")
