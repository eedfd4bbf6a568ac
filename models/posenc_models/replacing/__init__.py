"""Rotary modules of a live model, replaced by ours."""
