"""The frame of all commands: how they are found, helped, reported and ended.

- commands: the commands by name, each imported when it is called
- groups: dataclasses of options that several commands share
- help_pages, panels: examples, panels of options and next steps in ``--help``
- meant_options: options of other tools, and those here that mean the same
- output: errors in one sentence, JSON alone on stdout, progress on stderr
- verbose: the packages' log, on stderr
- command_end: release resources when a command ends
"""
