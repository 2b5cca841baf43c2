"""A model for a range of shapes, from the modules at some of them."""
