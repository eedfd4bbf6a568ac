"""Validation in processes of its own, which a graph may end."""
