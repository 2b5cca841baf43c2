"""A self-contained HTML page that shows an executable."""
