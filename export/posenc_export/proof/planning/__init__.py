"""Which calls are tried, and what they are fed."""
