"""What eager modules and references give in each case, recorded as golden data."""
