"""One file a scheme: parameters, source, family, float64 reference. Files here are found by themselves."""
