"""The dialect `acme`."""

from __future__ import annotations

from tpuc.api import Dialect

DIALECT = Dialect(
    "acme",
    {
        "Gelu7": "acme_ops.gelu7:Gelu7",
        "SoftClip": "acme_ops.soft_clip:SoftClip",
        "StoredGelu7": "acme_ops.stored_gelu7:StoredGelu7",
    },
)
