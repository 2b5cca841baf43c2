"""Schedules of blocks of units: IOS, Rammer, baselines, and mixtures of them."""
