"""Tests of the compiler's core."""
