"""Tests of reading images."""
