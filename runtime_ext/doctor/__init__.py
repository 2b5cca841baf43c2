"""Checks of an installation that work, too, where it does not."""
