"""Graphs run, compared and judged."""
