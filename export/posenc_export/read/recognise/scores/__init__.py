"""Biases of attention scores."""
