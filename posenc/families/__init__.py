"""Families: what makes an Encoding of a source of rows, or of rotary angles."""
