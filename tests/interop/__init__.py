"""The vendor's runtime and functional model against ours; skipped where they are not installed."""

from __future__ import annotations
