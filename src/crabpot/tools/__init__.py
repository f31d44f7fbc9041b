"""The tools as a client sees them: title, description, arguments and results as JSON schema, hints.

May import: the wire and below.
Must never enter: decisions: what a session may use is decided elsewhere, and described here.
"""
