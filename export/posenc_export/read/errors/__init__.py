"""Errors by position: how far the numbers of a file are from float64, as stored, as computed, and in half precision."""
