"""Parquet files as tables: footers, statistics, and row groups that can be skipped."""
