"""Files that survive a kill, and formats that are read without trust.

- atomic: files and folders that are written whole or not at all; swapping: a folder in another's
  place in one step; digest: what tells files apart
- locks: files that one process at a time holds
- line_files: logs that grow line by line; array_files: arrays by name
- json_text: JSON from anyone; plain_data: as dataclasses; byte_sizes: sizes as people write them
"""
