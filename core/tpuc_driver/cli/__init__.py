"""The command line. Imports are late, so that Ctrl-C works from the start."""

from __future__ import annotations

from tpuc_driver.cli.exit_codes import INTERRUPTED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `tpuc ARGUMENTS` (those of the process when None); returns the exit code."""
    try:
        from tpuc_driver.cli.interrupts import interruptible
        from tpuc_driver.cli.streams import fill_descriptors

        if arguments is None:  # the process is ours
            from tpuc_driver.cli.late_methods import compile_methods_late

            fill_descriptors()
            compile_methods_late()
        with interruptible(whole_process=arguments is None) as interrupt:
            from tpuc_driver.cli.run import run

            return run(arguments, interrupt)
    except KeyboardInterrupt:
        import sys

        sys.stderr.write("tpuc: interrupted\n")
        return INTERRUPTED
