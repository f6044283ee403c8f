"""Tests of chips."""
