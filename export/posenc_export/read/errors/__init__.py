"""Errors by position: how far the numbers of a file are from float64, as stored, as computed, and in half precision.

`measure` says what is measured of an encoding. `tables` and `by_position` do it; `far` and `far_rows` where a graph
counts its own positions; `places` of grids and of distances; `biases` of ALiBi; `rounding` says what half precision
would make of the numbers.
"""
