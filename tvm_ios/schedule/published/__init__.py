"""Schedules in files of IOS's published implementation, for units of our graphs.

- nodes: what is in such a file
- placing: which units its nodes are
- imported: the file's stages as a schedule of these units
"""
