"""What others measured or simulated, some of it read from files that lie beside the checkout.

latencies.py        what IOS's authors measured on a V100 and a K80
ios_schedules.py    their schedules of Inception V3, as graphs with stages
simulated.py        cycles of our CUDA kernels and programs in a simulator, and what is predicted
"""
