"""The tensors that a file stores, held row by row, and a graph run far out."""
