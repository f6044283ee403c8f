"""Passes and the order in which they run."""

from __future__ import annotations

from tpuc.schedule.manager import PassManager as PassManager
from tpuc.schedule.manager import PassTiming as PassTiming
from tpuc.schedule.manager import Report as Report
from tpuc.schedule.options import PassText as PassText
from tpuc.schedule.options import parse_pass_text as parse_pass_text
from tpuc.schedule.passes import Pass as Pass
from tpuc.schedule.passes import PassContext as PassContext
from tpuc.schedule.pipelines import PIPELINES as PIPELINES
from tpuc.schedule.pipelines import Pipelines as Pipelines
from tpuc.schedule.results import ResultKey as ResultKey
