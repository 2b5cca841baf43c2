"""Never slower, never wrong: rules, rounds of runs in turn, their ratios, and the verdict."""
