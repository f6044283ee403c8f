"""Typed keys of results that passes leave for the session."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tpuc.schedule.results import ResultKey

if TYPE_CHECKING:
    from tpuc_driver.data import SampleSource
    from tpuc_driver.session.reports import AccuracyReport, SelfCheck

CHECK_SAMPLES: ResultKey[SampleSource] = ResultKey("check_samples")
"""Samples for the self-check of a quantised network: those that calibration has held out, if there are any."""
SEEN_SAMPLES: ResultKey[SampleSource] = ResultKey("seen_samples")
"""Samples for it where calibration has held out none."""
SELF_CHECK: ResultKey[SelfCheck] = ResultKey("self_check")
"""What a quantised network still decides as the float one."""
ACCURACY: ResultKey[AccuracyReport] = ResultKey("accuracy")
"""What a promise of accuracy cost."""
