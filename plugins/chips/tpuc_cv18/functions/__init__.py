"""Functions of the runtime that run TOP ops on the processor, one file each."""
