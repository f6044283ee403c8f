"""Rewrites of `tf` and `tf_executor`: into functional form and back, pruning, folding, larger islands."""
