"""The scheduling policies, one in each file, and code that several of them share."""
