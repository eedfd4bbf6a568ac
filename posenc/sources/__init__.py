"""What encodings are made of, each with its modules: rows, angles, biases, features."""
