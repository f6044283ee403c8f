"""Tests of `tpuc visual`."""
