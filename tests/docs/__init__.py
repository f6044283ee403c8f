"""Tests of the documentation and of what generates it."""

from __future__ import annotations
