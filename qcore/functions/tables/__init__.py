"""Functions by their names in SQL: a table for each subject, and one for each dialect with additional names."""
