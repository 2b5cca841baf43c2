"""Devices of one kind behind a tracker of TVM's RPC, which time programs side by side.

``tracker.py``
    A client of the tracker: list its servers, and reserve one.
``time_limit.py``
    Time limits for calls that may never answer.
``choice.py``
    Options: the machines to measure on.
``machine_kind.py``
    The kind of machine that a server is: processor, features, lanes.
``kernel_library.py``
    Kernels compiled here, in a form that can be sent.
``connection.py``
    A connection to a server, with the executor loaded there; every call has a limit.
``machine.py``
    A machine behind a server, which times programs; libraries are sent to it once.
``calibration.py``
    A kernel by which the machines are compared.
``pool.py``
    The machines of a key: lent to one caller each, replaced if they are lost.
``device.py``
    The fleet as a device that measured searches use.
``opening.py``
    Connect to the servers of a key, and check that they are alike.
``kernel_timer.py``
    Time blockings of contractions on the machines while kernels are tuned.
``program_session.py``
    A session of a whole program on a machine.
``server.py``
    TVM's server with the executor preloaded.
"""
