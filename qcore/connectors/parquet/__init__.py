"""Parquet files as tables: footers, statistics, row groups that need not be read."""
