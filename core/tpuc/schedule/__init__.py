"""Passes and the order in which they run."""

from __future__ import annotations

from tpuc.schedule.manager import PassManager, PassTiming, Report
from tpuc.schedule.options import PassText, parse_pass_text
from tpuc.schedule.passes import Pass, PassContext
from tpuc.schedule.pipelines import PIPELINES, Pipelines
from tpuc.schedule.results import ResultKey

__all__ = [
    "PIPELINES",
    "Pass",
    "PassContext",
    "PassManager",
    "PassText",
    "PassTiming",
    "Pipelines",
    "Report",
    "ResultKey",
    "parse_pass_text",
]
