"""Queries whose drivers are disturbed in every way the contract allows, seed by seed. Run as: make fuzz.

A seed fixes the plan, the rows, how they are cut and where their schema changes, how many drivers and threads there
are, where the rows go, where operators that block, yield, refuse, split and give empty batches are put between the
engine's own, and what happens at which of their steps: an error, a cancel, an early finish. Only how threads interleave
is left to chance. Whatever happens, the rows are DuckDB's or the injected error comes out, once; every operator is
closed once, from the root to the leaf; and nothing is left behind.
"""
