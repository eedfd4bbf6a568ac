"""What eager modules and references give in each call."""
