"""Plan one arena for a program's intermediate memory: buffers that may share bytes, and offsets."""
