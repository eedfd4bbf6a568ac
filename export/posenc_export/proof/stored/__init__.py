"""The tensors that a file stores, compared row by row with the encoding made again, and a graph run far out."""
