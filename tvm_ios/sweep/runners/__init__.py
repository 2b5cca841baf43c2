"""Who does the tasks of a sweep.

- runner: what each of them offers
- processes: processes of this machine
- on_ray: a cluster of Ray, of this machine or of others
"""
