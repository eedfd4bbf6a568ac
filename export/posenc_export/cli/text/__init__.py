"""Text that becomes values."""
