"""Random queries over random tables, run by the engine in many equivalent ways and by DuckDB. SPEC Q2, Q3."""
