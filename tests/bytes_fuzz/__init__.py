"""Files, plans and C streams with some bytes wrong: an answer or a QcoreError, and never a dead process (SPEC Q4).

`make fuzz-bytes` runs it; a short run of fixed seeds is tests/test_bytes_fuzz.py. Mutations run in a process of their
own, which writes the number of each before it begins: one that ends the process is known by it, counted, and run past.
"""
