"""A model's config.json: its keys and settings."""
