"""Small models of transformers, and what each gives, in its own words."""
