"""A runner on a Unix socket that somebody else started, and confines."""
