"""Claims about connections out of a sandbox."""
