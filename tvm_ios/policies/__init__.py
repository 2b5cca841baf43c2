"""The scheduling policies, one in each file, and what several of them share."""
