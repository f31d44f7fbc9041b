"""Git that needs a network or credentials: packs pass, checked, through a bare repository of the gateway's own.

May import: `host_commands`, sandboxes and below.
Must never enter: a program of the host that reads the agent's `.git`.
"""
