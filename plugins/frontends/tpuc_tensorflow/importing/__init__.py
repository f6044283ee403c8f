"""Graphs of files as modules of `tf_executor`."""
