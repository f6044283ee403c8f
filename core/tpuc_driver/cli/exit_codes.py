"""Exit codes without an error class."""

from __future__ import annotations

INTERRUPTED = 130
"""The shell's convention for termination by a signal: 128 plus its number, 2 for SIGINT."""
FAILED = 1
