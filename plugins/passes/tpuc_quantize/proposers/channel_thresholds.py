"""Propose thresholds per channel, or one per tensor."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tpuc.api.evaluation import Array

from tpuc_quantize.calibration.proposer import Candidate, Proposer, Search
from tpuc_quantize.proposers.unseen_range import for_unseen
from tpuc_quantize.remedies.channel_thresholds import UNSEEN, choose_channels


class ChannelThresholds(Proposer):
    """Thresholds by output error for every channel, for images around unary functions, which lookup tables of 256
    entries per channel can compute.
    """

    name = "channel-thresholds"
    round = "channels"

    def propose(self, search: Search) -> Iterator[Candidate]:
        found: dict[str, Array] = {}
        headroom = search.settings.headroom
        entries = search.cached(for_unseen).entries if headroom else search.lowest
        for name, one in search.importance.items():
            entry = entries[name]
            if one.channels is not None and entry.threshold > 0:
                limit, signed = max(-entry.minimum, entry.maximum), entry.minimum < 0
                found[name] = choose_channels(
                    one.channels, limit, entry.threshold, signed=signed, headroom=headroom or UNSEEN
                )
        yield replace(search.best, channels=found)


class TensorThresholds(Proposer):
    """One threshold for all channels: those per channel must be clearly better."""

    name = "tensor-thresholds"
    round = "channels"

    def propose(self, search: Search) -> Iterator[Candidate]:
        if search.best.channels:
            yield replace(search.best, name=f"{search.best.name}, none per channel", channels={})
