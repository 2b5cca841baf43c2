"""Rammer: the wavefront policy over rPrograms, and their simulation (OSDI 2020)."""
