"""Writing bundles, where there is a compiler."""
