"""Convolutional networks, one or a family a file."""
