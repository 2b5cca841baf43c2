"""What models of devices say; little or nothing is measured.

described_devices.py   what described devices predict, beside what others measured
graphturbo.py          GraphTurbo's partitions on a simulated accelerator
graphturbo_model.py    what splitting sub-graphs is predicted to gain on a CPU
published/             what others measured or simulated
"""
