"""One file a scheme: a module, its float64 oracle, one registration. Files here are found by themselves."""
