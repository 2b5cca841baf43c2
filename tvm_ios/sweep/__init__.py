"""Sweeps: models x batches x shapes x devices x policies x pruning, as tasks that are done once.

``sweep_file.py``, ``toml_values.py``
    The file that a user writes, and checks of its values.
``tasks.py``, ``expansion.py``
    A task, and the tasks of a file.
``content.py``
    All that a task's result depends on, files and versions included, and its key.
``perform.py``, ``searches.py``, ``crossing.py``
    Doing one task: the search that it needs, and a schedule under other conditions.
``worker.py``, ``runners``
    A task in a worker process; starting workers on this machine, or by Ray.
``run.py``
    All tasks, each after those that it needs.
``finished.py``
    The folder of finished tasks.
``rows.py``, ``row_files.py``
    The results as rows, and the one file of them.
"""
