"""Files in which one thing is made wrong, and what becomes of them."""
