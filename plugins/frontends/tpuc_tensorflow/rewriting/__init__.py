"""Rewrites of `tf` and `tf_executor`: conversion to functional form and back, pruning, folding, merging of islands."""
