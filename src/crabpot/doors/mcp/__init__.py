"""The door for MCP clients: on standard input and output, and as streamable HTTP under `serve`."""
