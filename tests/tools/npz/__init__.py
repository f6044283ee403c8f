"""Tests of `tpuc npz`."""
