"""The driver's interface for plugins: commands, hooks, answers and measures, one module per subject."""

from __future__ import annotations
