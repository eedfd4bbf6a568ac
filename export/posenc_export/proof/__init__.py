"""From a bundle to verdicts."""
