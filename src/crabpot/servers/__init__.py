"""Owns MCP servers: starting each in a sandbox of its own, what an operator approved of it, and calls to its tools.

May import: sandboxes, wire, approvals, audit, presets, config, decide, settings and below; the `mcp` package.
Must never enter: a word of a server in what a client is shown, unless an operator approved it.
"""
