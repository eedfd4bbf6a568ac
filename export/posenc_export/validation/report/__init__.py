"""Verdicts as report.json, report.md and lines of text."""

from posenc.moved import names_of

__getattr__ = names_of("posenc_export.validation.report", "posenc_export.validation.report.report")
