"""The result of a validation as Python shows it: short in a list, whole where it is printed."""

from __future__ import annotations

from dataclasses import dataclass

from posenc_export.bundle.manifest import Manifest
from posenc_export.proof.judging.verdict import Basis, Verdict, failed
from posenc_export.proof.report.printed import as_html, as_text
from posenc_export.proof.report.report import headline


@dataclass(frozen=True, repr=False)
class ValidateResult:
    """The result of a validation; `print` shows its report.

    Args:
        manifest: The manifest of the bundle.
        verdicts: The rows of the report.
        basis: What the report is based on.
        unmet: A line for each required runtime that did not run.
    """

    manifest: Manifest
    verdicts: tuple[Verdict, ...]
    basis: Basis
    unmet: tuple[str, ...] = ()

    @property
    def failed(self) -> bool:
        """Whether anything that ran disagreed or failed a check."""
        return failed(self.verdicts)

    @property
    def passed(self) -> bool:
        """Whether nothing failed, and every required runtime ran."""
        return not self.failed and not self.unmet

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {', '.join(self._facts())}>"

    def __str__(self) -> str:
        return "\n".join([as_text(self.manifest, self.verdicts, self.basis), *self.unmet])

    def _repr_html_(self) -> str:
        return as_html(self.manifest, self.verdicts, self.basis)

    def _facts(self) -> list[str]:
        """Return what was exported, whether it passed, and the outcome in words."""
        manifest = self.manifest
        outcome = headline(manifest, self.verdicts).partition("; compared with ")[0]
        return [repr(manifest.scheme), manifest.mode, f"passed={self.passed}", repr(outcome)]
