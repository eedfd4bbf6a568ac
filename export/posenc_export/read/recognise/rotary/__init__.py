"""Pairs of features that turn: rotations that a graph spells out, operators that take tables, and what they turn by."""
