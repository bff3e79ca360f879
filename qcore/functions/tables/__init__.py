"""Functions by their names in SQL: a table for each subject, and one for each dialect with names of its own."""
