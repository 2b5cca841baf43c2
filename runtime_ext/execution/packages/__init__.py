"""The files of executables on disk: what they are, how they are written and checked."""
