"""What `tf` and `tf_executor` mean, in plain numpy."""
