"""Models of TensorFlow Lite, ordered and placed for the arena of TensorFlow Lite Micro."""
