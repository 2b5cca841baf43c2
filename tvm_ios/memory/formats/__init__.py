"""Files of models and buffers that are read, ordered, placed and written."""
