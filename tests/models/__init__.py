"""Networks and labeled data that several tests share."""

from __future__ import annotations
