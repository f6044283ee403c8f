"""What commands, hooks, answers and measures may import from the driver, a module for each subject."""

from __future__ import annotations
