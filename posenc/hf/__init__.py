"""Positional encodings of ours inside models of other libraries."""
