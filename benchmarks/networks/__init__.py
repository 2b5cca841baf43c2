"""Whole networks.

fine_grained_waits.py   waits against barriers, on random cells
first_executable.py     the time from the command to executables, and to good ones
graphnet.py             torch models of GraphNet, read by graphnet_samples.py, by torch.compile
graphturbo_cpu.py       instances on lanes against layer by layer
optimize.py             every network by `tvm-ios optimize`, its outputs compared
quantised.py            products of integers beside floats and ONNX Runtime's eight bits
report_page.py          what the page of a large network weighs, and when it paints
shares.py               what each part of the search is worth
side_by_side.py         ten networks beside ONNX Runtime and torch
torch_compile.py        modules by torch.compile: our backend beside Inductor and eager mode
vdevice.py              all schedulers on one vDevice, and what no schedule can beat
virtual_machine.py      our kernels on TVM's virtual machine beside our executor
"""
