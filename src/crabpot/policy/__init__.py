"""WHICH: the tools a session may use. Pure."""
