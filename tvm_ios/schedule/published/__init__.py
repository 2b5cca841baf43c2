"""Import schedules from files of IOS's published implementation.

- nodes: the nodes and stages of such a file
- placing: the units that its nodes correspond to
- imported: the file's stages as a schedule of these units
"""
