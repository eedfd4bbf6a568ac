"""Networks of frameworks that do not run on PyTorch."""
