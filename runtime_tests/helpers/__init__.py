"""What tests share, and modules that they export: each is named where it is used."""
