"""Typed keys of results that passes publish for the session."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tpuc.schedule.results import ResultKey

if TYPE_CHECKING:
    from tpuc_driver.data import SampleSource
    from tpuc_driver.session.reports import AccuracyReport, SelfCheck

CHECK_SAMPLES: ResultKey[SampleSource] = ResultKey("check_samples")
"""Samples for the self-check of a quantized network: those held out by calibration, if there are any."""
SEEN_SAMPLES: ResultKey[SampleSource] = ResultKey("seen_samples")
"""Samples for the self-check if calibration has held out none."""
SELF_CHECK: ResultKey[SelfCheck] = ResultKey("self_check")
"""Agreement of a quantized network with its float form."""
ACCURACY: ResultKey[AccuracyReport] = ResultKey("accuracy")
"""Cost of an accuracy constraint."""
