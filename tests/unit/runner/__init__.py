"""Claims about the runner, most of them tried on a real one over its wire."""
