"""What `tpuc run` says of classes and of objects."""
