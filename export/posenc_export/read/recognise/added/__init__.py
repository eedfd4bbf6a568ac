"""Rows of positions that are added to data, or that a weight takes in."""
