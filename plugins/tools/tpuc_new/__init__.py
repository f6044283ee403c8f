"""`tpuc new`: create a plugin from a tested example package under another name."""

from __future__ import annotations
