"""The SQL frontend: binds sqlglot's parse tree to plan nodes. `bind.plan_query` is its entry point."""
