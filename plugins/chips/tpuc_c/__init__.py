"""Host C: compile networks to self-contained C99 with planned memory."""
