"""Writing bundles."""
