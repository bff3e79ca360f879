"""What plans and expressions are made of: nodes, types, functions, and the schemas that follow from them."""
