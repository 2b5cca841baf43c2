"""What users see of every command, held still: tables, JSON, exit codes and files."""
