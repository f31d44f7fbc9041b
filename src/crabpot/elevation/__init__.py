"""WHEN: one command may leave the sandbox for the host."""
