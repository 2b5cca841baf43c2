"""Networks in Relay, with the TVM that has it.

networks.py   against TVM's own graph executor
tuning.py     tunes them by AutoTVM
blocks.py     blocks of channels chosen for a whole network, or TVM's own
"""
