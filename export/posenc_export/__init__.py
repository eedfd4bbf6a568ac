"""posenc-export."""
