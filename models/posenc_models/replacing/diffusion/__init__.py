"""Rotary modules of diffusers' transformers, replaced by ours."""
