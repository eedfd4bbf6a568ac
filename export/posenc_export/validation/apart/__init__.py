"""Validation in processes of its own, which a graph may end."""

from posenc.moved import names_of

__getattr__ = names_of("posenc_export.validation.apart", "posenc_export.validation.apart.parent")
