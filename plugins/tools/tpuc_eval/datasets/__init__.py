"""Labeled data sets, one file per format."""
