"""Convolutional networks; each file has one network or family."""
