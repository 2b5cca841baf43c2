"""The published memory schedulers: SERENITY, HMCOS, and the integer program."""
