"""Numbers as features."""
