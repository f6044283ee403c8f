"""Promises about the tree as a whole: who imports whom, what the wheel holds, what the documents say."""

from __future__ import annotations
