"""Host C: networks as self-contained C99, with planned memory."""
