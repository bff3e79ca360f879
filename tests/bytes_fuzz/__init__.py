"""Files, plans and C streams with some bytes wrong: an answer or a QcoreError, and never a dead process (SPEC Q4).

`make fuzz-bytes` runs it; a short run of fixed seeds is tests/test_bytes_fuzz.py. Mutations run by the thousand in a
process of their own, which tells through a pipe what came of each. The one that ends the process is the one behind the
last told: it is counted, and the next process goes on behind it.
"""
