"""Tests of `tpuc report`."""
