"""What several formulas are made of: rotations, frequencies, resampling, windows, features.

No module, source of rows or constant of a graph imports this, and nothing here imports those: what both need stands
twice, so that either may be wrong alone, and is then seen to be. A test holds it.
"""
