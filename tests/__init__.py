"""Tests of the compiler and of every bundled plugin; the folders mirror the tree."""

from __future__ import annotations
