"""Tuning the contractions of a model, by timing different cuts of them, on any device.

``contraction_task.py``
    A tuning task: a contraction of a model, and how often a run computes it.
``model_tasks.py``
    What there is to tune in a model: the contractions of its units and of its merge candidates.
``speed_model.py``
    A learned guess at which blockings are fast, from all that were measured so far.
``tune_model.py``
    Tune the contractions of a model into a MetaSchedule database.
``tuner.py``
    Tune the contractions of a model: rounds of trials where the model's latency falls most.
"""
