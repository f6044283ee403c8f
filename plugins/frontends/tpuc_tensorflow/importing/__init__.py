"""Turn graphs of files into modules of `tf_executor`."""
