"""Never slower, never wrong: pairs of runs, their ratios, and the verdict on a policy."""
