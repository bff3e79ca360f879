"""From a plan to the engine's pipelines of operators."""
