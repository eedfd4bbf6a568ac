"""What encodings are made of: rows, angles, biases of sequences and of windows, grids, features.

Schemes call the `encode` of a folder here; `posenc_models.asking` reads some helpers, too.
"""
