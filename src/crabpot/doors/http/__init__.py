"""The door for programs that speak HTTP: a Unix socket, or the loopback with a token.

May import: the gateway and below.
Must never enter: decisions; `access` identifies the principal, the gateway decides what it may do.
"""
