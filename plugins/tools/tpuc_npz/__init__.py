"""Inspect and change npz files: `tpuc npz`."""
