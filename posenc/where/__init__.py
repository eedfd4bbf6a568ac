"""How a call gives its positions."""
