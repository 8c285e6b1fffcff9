"""Studies of the acyclicity constraints alone, each a function from sizes to a table."""
