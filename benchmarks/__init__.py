"""What measures, room by room; ``README.md`` says of each script what it measures and writes.

units           single units and pairs of them, and what launching them costs
networks        whole networks: beside others, lane by lane, with and without parts of the search
searching       how long searches take, also on several workers and servers
serving         programs as they are deployed: requests, steadiness, deployments, C++
memory          memory of activations
predicted       what models of devices say, beside what others published
gpus            kernels for GPUs, compiled here; and the suite that is measured on a GPU
papers          tables and figures of publications, ours beside theirs
relay           networks in Relay, with the TVM that has it
results         what was measured, as JSON

run_all.py          runs what needs nothing besides this machine: ``make bench``
report.py           writes results, with the machine that they hold for, and reads them
in_turn.py          two programs in one process, in turn; the command line of scripts that do so
busy_processes.py   other processes that take processor time
"""
