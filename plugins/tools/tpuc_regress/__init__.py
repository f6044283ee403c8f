"""`tpuc regress`: run the commands of all networks described in a folder, and report failures."""
