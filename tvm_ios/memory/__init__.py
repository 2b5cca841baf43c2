"""The order of operators with the smallest peak memory."""
