"""WHERE: the host, or a sandbox and what shares it. Pure."""
