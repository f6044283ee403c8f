"""Tests of `tpuc regress`."""
