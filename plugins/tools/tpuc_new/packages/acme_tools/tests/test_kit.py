"""The board takes files for its chip that fit into its memory."""

from __future__ import annotations

from acme_tools.kit import KIT


def test_what_it_refuses() -> None:
    assert KIT.refuses_chip(KIT.chip) is None
    assert KIT.refuses_chip("bm1684x") is not None
    assert KIT.refuses_size(KIT.device_bytes) is None
    assert KIT.refuses_size(KIT.device_bytes + 1) is not None
