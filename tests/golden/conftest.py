"""Golden texts: every `.mlir` file here with a RUN line is a test."""

from __future__ import annotations

from tpuc.testing.golden_plugin import pytest_collect_file

__all__ = ["pytest_collect_file"]
