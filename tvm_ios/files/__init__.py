"""Files that survive a kill, and formats that are read without trust."""
