"""A preset and an answer as a package would write them."""

from __future__ import annotations

from collections.abc import Sequence

from tpuc_driver.api.answers import Answer, Asked, RunSample
from tpuc_driver.api.host import Preset

PRESET = Preset({"pixel_format": "gray", "mean": (127.5,), "scale": (1 / 127.5,), "crop": 0.5})


class Angles(Answer):
    """Of networks that give one number between -1 and 1 for a half turn to the left or to the right."""

    def lines(self, ran: RunSample, asked: Asked) -> Sequence[str] | None:
        """See Answer."""
        if set(ran.values) != {"angle"}:
            return None
        return [f"turned by {180 * float(ran.values['angle'].item()):.0f} degrees"]
