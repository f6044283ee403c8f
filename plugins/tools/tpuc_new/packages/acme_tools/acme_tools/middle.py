"""A preset: how pictures become the inputs of a family of networks."""

from __future__ import annotations

from tpuc_driver.api.host import Preset

MIDDLE = Preset({"pixel_format": "gray", "mean": (127.5,), "scale": (1 / 127.5,), "crop": 0.5})
"""Gray pixels from -1 to 1, from the middle half of the picture."""
