"""Other runtimes that run a model, to be compared with our programs; all are in one registry."""
