"""Files that a query writes: sets of files that appear complete or not at all, Parquet tables, Arrow partitions."""
