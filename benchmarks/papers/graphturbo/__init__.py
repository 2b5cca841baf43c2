"""GraphTurbo (OSDI 2023).

- rows: which function makes which
- hierarchies: the configurations of accelerators
- simulated: the networks of the evaluation on described accelerators, a step for each batch
- tables, figures: of the evaluation
"""
