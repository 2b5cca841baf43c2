"""Find the limits of a program's speed from its launches and their times."""
