"""`tpuc regress`: run the commands of networks described in a folder, and report failures."""
