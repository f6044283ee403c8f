"""Picture of a memory plan: where every buffer lies in its pool, and while which operations run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from tpuc_profile.colors import PALETTE

MOST_BUFFERS = 600
"""Buffers in the picture of one pool; of more, the smallest are left out."""
CONSTANT_POOLS = frozenset({"weights", "parameters"})
"""Pools of constants, which stay."""
MOST_KEYS = 12
"""Buffers in the legend: the largest at the time of the peak."""


@dataclass(frozen=True)
class Buffer:
    """A buffer of a pool: bytes `[offset, offset + size)` from operation `first` to `last`, inclusive."""

    name: str
    offset: int
    size: int
    first: int
    last: int
    reason: str

    @property
    def color(self) -> str:
        """A color by name, the same in every page."""
        return PALETTE[sum(map(ord, self.name)) % len(PALETTE)]


def pictures(plan: Mapping[str, Any]) -> Iterator[str]:
    """Yield a picture for each pool of a memory plan whose buffers come and go.

    The page's script places the boxes, since its security policy allows no styles in tags.
    """
    for pool in plan["pools"]:
        found = [
            Buffer(one["name"], one["offset"], one["size_bytes"], one["first"], one["last"], one["reason"])
            for one in plan["buffers"]
            if one["pool"] == pool["name"] and one["size_bytes"]
        ]
        end = max((one.last for one in found), default=0) + 1
        if found and pool["name"] not in CONSTANT_POOLS:
            yield _picture(pool["name"], pool["peak_bytes"], found, end)


def _picture(pool: str, peak: int, buffers: Sequence[Buffer], end: int) -> str:
    drawn = sorted(sorted(buffers, key=lambda one: -one.size)[:MOST_BUFFERS], key=lambda one: (one.first, one.offset))
    low = min(one.offset for one in buffers)
    tall = max(peak - low, max(one.offset + one.size for one in buffers) - low)
    fullest = max(range(end), key=lambda at: sum(one.size for one in buffers if one.first <= at <= one.last))
    keys = sorted((one for one in buffers if one.first <= fullest <= one.last), key=lambda one: -one.size)
    more = len(buffers) - len(drawn)
    said = f"Pool '{pool}': {tall:,} B, {len(buffers)} buffers over {end} operations"
    note = f"; the {more} smallest are not drawn" if more else ""
    ticks = "".join(f"<span>{(end - 1) * part // 4:,}</span>" for part in range(4))
    return (
        f"<h3>{escape(said + note)}</h3>\n"
        f'<div class="arena" role="img" aria-label="{escape(said)}">'
        f"{''.join(_box(one, low, tall, end) for one in drawn)}</div>\n"
        f'<div class="axis arena-axis">{ticks}<span>operation {end - 1:,}</span></div>\n'
        f'<div class="keys arena-keys"><span class="muted">at the peak, operation {fullest:,}:</span> '
        f"{' '.join(map(_key, keys[:MOST_KEYS]))}"
        f"{f' <span>and {len(keys) - MOST_KEYS} more</span>' if keys[MOST_KEYS:] else ''}</div>\n"
    )


def _box(one: Buffer, low: int, tall: int, end: int) -> str:
    place = (one.first / end, (one.last - one.first + 1) / end, (one.offset - low) / tall, one.size / tall)
    shares = " ".join(f"{share:.3%}" for share in place)
    said = f"{one.name}: {one.size:,} B at {one.offset:,}, operations {one.first} to {one.last}; {one.reason}"
    label = escape(one.name) if one.size / tall > 0.035 and (one.last - one.first + 1) / end > 0.02 else ""
    return f'<div data-place="{shares}" data-color="{one.color}" title="{escape(said)}">{label}</div>'


def _key(one: Buffer) -> str:
    return (
        f'<span><span class="key" data-color="{one.color}"></span> {escape(one.name)} '
        f'<span class="muted">{one.size:,} B</span></span>'
    )
