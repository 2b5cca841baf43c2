"""Tuning logs and what they know: MetaSchedule databases of contractions and of TVM's functions."""
