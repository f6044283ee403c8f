"""Tests of the bundled memory planners."""
