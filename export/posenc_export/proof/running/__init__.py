"""From a bundle to the rows of its report: every check, and every case on every runtime."""
