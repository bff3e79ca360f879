"""SQL text: its tokens, and what the planner's parser does not know written as what it knows. A module a construct."""
