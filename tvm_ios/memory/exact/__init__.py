"""The order with the least peak memory, and its proof."""
