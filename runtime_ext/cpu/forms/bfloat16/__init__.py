"""Contractions with weights rounded to bfloat16."""
