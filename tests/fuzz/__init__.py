"""Damaged files give one sentence: never a traceback, a hang, a blow-up of memory or half an output."""
