"""Memory schedulers from published papers."""
