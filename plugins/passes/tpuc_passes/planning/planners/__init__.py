"""Bundled memory planners, one file each."""
