"""Tests of `tpuc check` and `tpuc reduce`."""
