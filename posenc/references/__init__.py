"""The mathematics in float64, for the references that judge encodings: NumPy, written from the papers.

Nothing here is imported by a module, a source of rows or a constant of a graph, and nothing here imports those: what
both need stands twice, so that either may be wrong alone, and is then seen to be. A test holds it.
"""
