"""Configs that are read, held against the models' own code, whole and with one key changed."""
