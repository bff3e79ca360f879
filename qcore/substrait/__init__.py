"""The Substrait frontend: translates Substrait plans to qcore plans."""
