"""Rope types: the frequencies that each has, in float64 NumPy, and the way back from frequencies that were measured."""
