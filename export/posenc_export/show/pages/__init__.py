"""A bundle's result as one HTML page: what was proved, and pictures of it; nothing that a bundle says is markup."""
