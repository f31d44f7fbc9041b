"""The door for MCP clients: on standard input and output, and as streamable HTTP under `serve`.

May import: the gateway and below.
Must never enter: decisions.
"""
