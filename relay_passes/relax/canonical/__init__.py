"""Relax modules in the form that scheduling reads."""
