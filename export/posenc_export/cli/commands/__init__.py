"""The commands, a file each, by their names."""
