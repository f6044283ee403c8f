"""The driver on top of the compiler: sessions, sample data, worker pools, reports, command line, Python interface."""

from __future__ import annotations
