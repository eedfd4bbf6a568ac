"""Rows of distances, multiplied with queries."""
