"""Tests of tools that are not needed to compile."""
