"""Apache Spark: DataFrames as tables of the engine. Needs pyspark, which is imported only by what the user passes. Floor P5."""
