"""Passes and the order in which they run."""

from __future__ import annotations

from tpuc.schedule.manager import PassManager, PassTiming, Report
from tpuc.schedule.options import PassText, parse_pass_text
from tpuc.schedule.passes import Pass, PassContext
from tpuc.schedule.pipelines import PIPELINES, Pipelines

__all__ = [
    "PIPELINES",
    "Pass",
    "PassContext",
    "PassManager",
    "PassText",
    "PassTiming",
    "Pipelines",
    "Report",
    "parse_pass_text",
]
