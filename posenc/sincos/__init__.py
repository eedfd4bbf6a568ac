"""Cosines and sines of position x frequency, by three methods."""
