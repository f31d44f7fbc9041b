"""A runner that somebody else started, and confines, and that listens on a Unix socket."""
