"""Tuning logs: MetaSchedule databases of contractions and of TVM's functions."""
