"""Encodings of a file, held against a model's config or against another file, layer by layer."""
