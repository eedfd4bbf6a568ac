"""A bundle's page and its proof in a visitor's browser: served on this machine, or written as static files."""
