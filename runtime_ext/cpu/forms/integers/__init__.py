"""Contractions of quantised units, by instructions that multiply integers."""
