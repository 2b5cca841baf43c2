"""Run executables by Python on Arm: one a line of the standard input, which names it and two files.

The program of the folder FOLDER is loaded by the C++ loader, and given what it takes of the arrays
of INPUTS.npz; OUTPUTS.npz gets its outputs in the model's order. The answer is a line, an error or
nothing. With the argument ``--without-tvm`` there is no TVM.
"""

from __future__ import annotations

import sys
from contextlib import closing

import numpy as np

if "--without-tvm" in sys.argv:
    sys.modules["tvm"] = None  # type: ignore[assignment]

from runtime_ext.execution.executable import load


def main() -> None:
    for line in sys.stdin:
        folder, inputs, outputs = line.rstrip("\n").split("\t")
        try:
            with np.load(inputs) as given, closing(load(folder).session()) as session:
                session.run(**{port.name: given[port.name] for port in session.inputs})
                np.savez(outputs, *(session.get_output(n) for n in range(len(session.outputs))))
            answer = ""
        except Exception as error:
            answer = f"{type(error).__name__}: {' '.join(str(error).split())}"
        print(answer, flush=True)


if __name__ == "__main__":
    main()
