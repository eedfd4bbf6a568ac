"""Rotations of queries and keys by angles."""
