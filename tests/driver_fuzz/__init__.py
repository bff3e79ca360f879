"""Queries whose drivers are disturbed in every way that the contract allows. Run as: make fuzz.

A seed fixes everything but the interleaving of threads:

- the plan, the rows, the cuts between batches, and the batches at which the schema changes;
- the numbers of drivers and threads, and the sink;
- the random operators between those of the engine: they block, yield, refuse, split, and return empty batches;
- an error, a cancel or an early finish, and the step at which it happens.

After each run the rows are DuckDB's, or the injected error was raised once. Every operator was closed once, from the
root to the leaf. No memory, file or thread is left.
"""
