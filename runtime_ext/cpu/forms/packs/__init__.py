"""Contractions of packs of channels in 8 or 16 bits, which several forms use."""
