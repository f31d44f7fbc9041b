"""The door for programs that speak HTTP: the same gateway behind a Unix socket, or the loopback with a token."""
