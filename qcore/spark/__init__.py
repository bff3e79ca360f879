"""Apache Spark: DataFrames as tables of the engine. Whoever passes one has imported pyspark."""
