"""What goes into a module of a user's, said in text: `-i 'x: float32[batch, seq, 64]'`."""
