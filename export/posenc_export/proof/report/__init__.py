"""Verdicts as report.json, report.md and lines of text."""
