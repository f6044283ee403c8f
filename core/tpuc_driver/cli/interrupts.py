"""Exit with one line on Ctrl-C, at any point."""

from __future__ import annotations

import _thread
import signal
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

AGAIN_SECONDS = 0.01


class Interrupt:
    """Records whether Ctrl-C was pressed; libraries may replace the exception that it raises."""

    pressed = False

    def __call__(self, *_: object) -> None:
        """The handler of the signal."""
        self.pressed = True
        raise KeyboardInterrupt


@contextmanager
def interruptible(*, whole_process: bool) -> Generator[Interrupt]:
    """Handle interrupts inside the block. After a `whole_process` has ended, another Ctrl-C terminates it silently."""
    interrupt = Interrupt()
    ours = threading.current_thread() is threading.main_thread()
    before = signal.getsignal(signal.SIGINT) if ours else None
    if before is not signal.default_int_handler:  # somebody else's, or ignored
        yield interrupt
        return
    reported = sys.unraisablehook
    signal.signal(signal.SIGINT, interrupt)
    sys.unraisablehook = _raising_again(reported)
    try:
        yield interrupt
    finally:
        sys.unraisablehook = reported
        signal.signal(signal.SIGINT, signal.SIG_DFL if whole_process else before)


def _raising_again(reported: Any) -> Any:
    """Where Ctrl-C occurs during an object's destruction, Python would print and continue: raise it again."""

    def hook(unraisable: Any) -> None:
        if unraisable.exc_type is KeyboardInterrupt:
            timer = threading.Timer(AGAIN_SECONDS, _thread.interrupt_main)  # behind the end of this hook
            timer.daemon = True
            timer.start()
        else:
            reported(unraisable)

    return hook
