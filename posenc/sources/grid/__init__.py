"""Rows of places in a grid."""
