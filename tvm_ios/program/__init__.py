"""Programs: lanes of launches and waits, their lowering from schedules, and their memory plans."""
