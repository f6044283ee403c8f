"""Range estimators: from statistics of values to clipping ranges, and ranges known beforehand."""
