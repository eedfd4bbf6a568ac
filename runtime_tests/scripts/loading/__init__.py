"""What scripts on whole models share: programs of other loaders, files of other exporters, small models."""
