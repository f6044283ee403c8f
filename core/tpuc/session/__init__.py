"""The whole pipeline as a Python object; the command line is a thin shell over it."""

from __future__ import annotations

from tpuc.session.boundary import Boundary
from tpuc.session.reports import CompileReport, ProfileReport, StageComparison
from tpuc.session.session import Session

__all__ = ["Boundary", "CompileReport", "ProfileReport", "Session", "StageComparison"]
