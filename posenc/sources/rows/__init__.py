"""Rows of positions, returned or added."""
