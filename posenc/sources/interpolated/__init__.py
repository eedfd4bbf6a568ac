"""Rows of a stored grid, resampled to another."""
