"""Models as a user names them: zoo names and files, their input shapes and weights."""
