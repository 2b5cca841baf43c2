"""The frame of all commands: how they are found, helped, reported and ended."""
