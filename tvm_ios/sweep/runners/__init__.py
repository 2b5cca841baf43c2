"""Runners: where the tasks of a sweep run.

- runner: the interface of a runner
- processes: processes of this machine
- on_ray: a cluster of Ray, of this machine or of others
"""
