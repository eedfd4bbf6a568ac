"""Numbers to names: closed forms that position values have, and the encodings that a graph holds by them."""
