"""How outputs of a graph differ from what was recorded, and whether that is allowed."""
