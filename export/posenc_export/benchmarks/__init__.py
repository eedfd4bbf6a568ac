"""How long graphs take, by turns and in one run."""
