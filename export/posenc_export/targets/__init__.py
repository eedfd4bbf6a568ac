"""What is exported: a scheme, a model's config, or a user's module."""
