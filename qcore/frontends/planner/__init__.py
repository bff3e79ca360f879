"""What is told to DataFusion's planner, asked of it and made of its answers: names, constants, rules, errors."""
