"""Detect bimodal ranges: values that are small or huge, which no single 8-bit scale can represent."""

from __future__ import annotations

from collections.abc import Mapping

from tpuc_quantize.observers.histogram import Histogram
from tpuc_quantize.options.tuning import CHECKS

_STEPS = 256
"""Values below the largest one divided by this fall within one 8-bit step."""
_SHOWN = 4


def find_bimodal_ranges(histograms: Mapping[str, Histogram]) -> dict[str, tuple[float, float]]:
    """By name, the bound of the small values and the largest value, where one 8-bit step covers all small values and
    the others exceed half of the largest.
    """
    found: dict[str, tuple[float, float]] = {}
    for name, histogram in histograms.items():
        if histogram.range.absmax < CHECKS.huge:
            continue
        seen = histogram.statistics()
        low, middle = seen.counts.size // _STEPS, seen.counts.size // 2
        small = seen.counts[:low].nonzero()[0]
        if small.size and seen.counts[middle:].any() and not seen.counts[low:middle].any():
            found[name] = ((int(small[-1]) + 1) * seen.absmax / seen.counts.size, seen.absmax)
    return found


def sentence(found: Mapping[str, tuple[float, float]]) -> str:
    """The remark for the user."""
    names = [f"'{name}' (below {small:.3g}, then up to {large:.3g})" for name, (small, large) in found.items()]
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return (
        f"small and huge values in one tensor (a mask?): {', '.join(names[:_SHOWN])}{more}; int8 cannot represent "
        "both. Keep the ops that compute and read it in float: `--min-accuracy` finds them, or list them in "
        "--quantize-table"
    )
