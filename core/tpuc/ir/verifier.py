def verify_module(m): pass
