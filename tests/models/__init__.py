"""Networks and labelled data that several tests share."""

from __future__ import annotations
