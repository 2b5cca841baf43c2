"""Which kernel an operator becomes: one rule an operator."""
