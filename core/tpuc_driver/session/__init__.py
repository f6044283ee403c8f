"""The compilation pipeline as Python objects; the command line is a thin layer above it."""

from __future__ import annotations

from tpuc_driver.session.boundary import Boundary
from tpuc_driver.session.reports import CompileReport, ProfileReport, StageComparison
from tpuc_driver.session.session import Session

__all__ = ["Boundary", "CompileReport", "ProfileReport", "Session", "StageComparison"]
