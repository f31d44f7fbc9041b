"""Is this machine fit to hold an agent: kernel, bwrap, Docker and Crabpot's own files, and what mends them."""
