"""The door for programs that speak HTTP: a Unix socket, or the loopback with a token.

May import: the gateway and below.
Must never enter: decisions; `access` says whose a request is, the gateway what it may do.
"""
