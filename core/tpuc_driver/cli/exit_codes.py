"""Exit codes that no error has of its own."""

from __future__ import annotations

INTERRUPTED = 130
"""As shells report the end by a signal: 128 and its number, 2 for SIGINT."""
FAILED = 1
