"""What every command stands in: how it is found, helped, reported and ended.

- commands: the commands by name, each imported when it is called
- help_pages: examples, panels and what comes next, in ``--help``
- meant_options: options of other tools, and those here that mean the same
- output: errors in one sentence, JSON alone on stdout, progress on stderr
- verbose: what the packages log, on stderr
- command_end: what is released when a command ends
"""
