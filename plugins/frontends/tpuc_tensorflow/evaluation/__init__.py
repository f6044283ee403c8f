"""Evaluate `tf` and `tf_executor` in plain numpy."""
