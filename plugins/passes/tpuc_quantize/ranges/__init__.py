"""Range estimators, from statistics to clipping ranges, and ranges known in advance."""
