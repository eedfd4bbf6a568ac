"""Scheme -> artifact -> runtime -> verdict: export an encoding and prove that what was exported is right."""
