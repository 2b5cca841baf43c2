"""The command line: ``tvm-ios``, or ``python -m tvm_ios``."""

from __future__ import annotations

from tvm_ios import interrupts


def main() -> None:
    """Run the command that the arguments name."""
    with interrupts.reported():
        # Imported here: it takes half a second, in which a signal may come.
        from runtime_ext.torch_later import import_torch_later
        from tvm_ios.cli import app

        import_torch_later()
        app(prog_name="tvm-ios")


if __name__ == "__main__":
    main()
