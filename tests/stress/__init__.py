"""The executor under load: ``python -m tests.stress`` (see ``--help``)."""
