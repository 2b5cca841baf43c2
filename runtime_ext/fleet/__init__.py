"""Devices of one kind behind a tracker of TVM's RPC, which time programs side by side.

``tracker.py``
    Asks a tracker what servers it has, and for one of them.
``time_limit.py``
    Calls that may never answer.
``choice.py``
    Which machines to measure on.
``machine_kind.py``
    What kind of machine a server is: processor, features, lanes.
``kernel_library.py``
    Kernels that travel; they are compiled here.
``connection.py``
    A connection to a server, with the executor loaded there; every call has a limit.
``machine.py``
    A machine behind a server: libraries are sent once, programs timed.
``calibration.py``
    A kernel by which machines are compared, and which of them differ.
``pool.py``
    The machines of a key: lent to one caller each, lost, found again.
``device.py``
    All of it as a device that measured searches use.
``opening.py``
    Connects to the servers of a key, and sees that they are alike.
``kernel_timer.py``
    Blockings of contractions, timed on it while kernels are tuned.
``program_session.py``
    Whole programs on a machine.
``server.py``
    TVM's server with the executor preloaded.
"""
