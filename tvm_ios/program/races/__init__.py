"""Races in anybody's plan: launches, what orders them, and the bytes that they touch."""
