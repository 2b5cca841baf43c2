"""Devices of one kind behind a tracker of TVM's RPC, which time programs side by side."""
