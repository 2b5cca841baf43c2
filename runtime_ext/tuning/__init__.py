"""Tuning the contractions of a model, by timing different cuts of them, on any device.

``contraction_task.py``
    A tuning task: a contraction of a model, and how often a run computes it.
``model_tasks.py``
    The tuning tasks of a model: the contractions of its units and of its merge candidates.
``speed_model.py``
    A learned model that predicts which blockings are fast, from all measured so far.
``tune_model.py``
    Tune the contractions of a model into a MetaSchedule database.
``tuner.py``
    Tune contractions in rounds of trials, each where the model's latency may fall most.
"""
