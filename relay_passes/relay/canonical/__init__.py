"""Relay modules in the form that scheduling reads."""
