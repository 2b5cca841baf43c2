"""Checks of an installation, which run even where it is broken; one kind of checks a file."""
