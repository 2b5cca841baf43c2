"""Small networks for tests."""
