"""Tests of spreading work."""
