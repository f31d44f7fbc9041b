"""What a sandbox is, backend-neutral. Pure, but for resolving links."""
