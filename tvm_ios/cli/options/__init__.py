"""Options that commands have in common."""
