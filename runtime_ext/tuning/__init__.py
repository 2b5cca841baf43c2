"""Tuning the contractions of a model, by timing different cuts of them, on any device."""
