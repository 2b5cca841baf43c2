"""``python -m tvm_ios``: the command line."""

from tvm_ios.cli import main

main()
