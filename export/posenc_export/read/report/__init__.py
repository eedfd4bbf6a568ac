"""Inspections as text and as JSON, with a schema."""
