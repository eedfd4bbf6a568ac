"""The output folder: artifacts, manifest, golden data."""
