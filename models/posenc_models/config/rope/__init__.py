"""Rotary settings of a config: names of keys, pairs of features, layers, scaling, defaults."""
