"""Which calls are tried, and what is fed."""
