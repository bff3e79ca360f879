"""Files that a query writes: sets that appear whole or not at all, Parquet tables, Arrow partitions."""
