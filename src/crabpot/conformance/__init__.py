"""The promises that every backend keeps, in a form that any backend can be held to."""
