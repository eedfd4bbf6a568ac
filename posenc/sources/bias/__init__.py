"""Biases on scores: by distance, by query, of values."""
