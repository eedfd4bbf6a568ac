"""Abstract interpretation of a graph at given sizes: what each tensor is, and where position values meet data."""
