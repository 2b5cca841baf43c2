"""Convolutions by Winograd's filtering: two kernels."""
