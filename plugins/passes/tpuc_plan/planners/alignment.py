"""Addresses and sizes that are multiples of an alignment."""

from __future__ import annotations


def align(size_bytes: int, alignment: int) -> int:
    """Round up to a multiple of `alignment`."""
    return -(-size_bytes // alignment) * alignment
