"""Tests of `tpuc profile`."""
