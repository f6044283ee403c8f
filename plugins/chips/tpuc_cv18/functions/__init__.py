"""Functions of the runtime that compute TOP ops on the host, one file each."""
