"""Translation of plans to the engine's pipelines of operators."""
