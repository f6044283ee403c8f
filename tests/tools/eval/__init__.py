"""Tests of `tpuc eval`."""
