"""Host C: the folder that is written, and the programs that a C compiler makes of it."""
