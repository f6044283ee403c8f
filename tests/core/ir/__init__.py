"""Tests of the IR, and a small dialect for them."""
