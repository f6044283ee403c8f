"""`tpuc regress`: networks that are described in a folder go through their commands, and what fails is told."""
