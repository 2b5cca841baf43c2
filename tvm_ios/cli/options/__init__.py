"""Options that commands have in common.

- search_options: of commands that search
- model: of commands that read a model
- fleet: of commands that have other machines measure
- combinations: several values of one option, of which a deployment has all combinations
- values: parse names, numbers and sizes; refuse what is wrong
- completion: suggestions of the shell
"""
