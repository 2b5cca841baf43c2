"""Options that commands have in common.

- search_options: of commands that search
- model: of commands that read a model
- fleet: of commands that have other machines measure
- combinations: several values of one option, of which a deployment has all combinations
- described: the description that stands in where there is no machine to measure on
- values: names, numbers and sizes that options say; what does not go is refused
- completion: what the shell offers
"""
