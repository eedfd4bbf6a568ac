"""Graphs that others made: which encodings of positions an ONNX file holds, how right they are, and where they end.

A graph is interpreted abstractly: constants stay closed until their numbers are asked for, values that depend on
positions alone are computed, and data carry their shape. Where a position value meets data, its numbers are named.
"""
