"""Results of commands as tables, and some as JSON."""
