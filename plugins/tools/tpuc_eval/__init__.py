"""Evaluate networks on labeled data: `tpuc eval`, data sets, post-processing, metrics."""
