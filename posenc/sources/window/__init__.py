"""Biases between the places of a window."""
