"""What bounds a program, from its launches and their times alone."""
