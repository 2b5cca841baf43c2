"""Models as a user names them: zoo networks and files."""
