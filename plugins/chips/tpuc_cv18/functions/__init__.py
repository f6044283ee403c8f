"""Functions of the runtime that compute ops of TOP on the processor, one file each."""
