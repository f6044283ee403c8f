"""Plugins of a stranger, one file each."""

from __future__ import annotations
