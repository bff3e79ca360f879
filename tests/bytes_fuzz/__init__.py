"""Files, plans and C streams with some bytes changed: each gives an answer or a QcoreError (SPEC Q4).

`make fuzz-bytes` runs it, and tests/test_bytes_fuzz.py runs a few fixed seeds. A worker process runs up to 2,000
mutations and writes the outcome of each to a pipe. If the worker dies, the mutation after the last reported one counts
as a fault, and a new worker continues after it.
"""
