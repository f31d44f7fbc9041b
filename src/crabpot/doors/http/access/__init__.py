"""Who may use the HTTP door, and how much: tokens, principals, connections and limits.

May import: the standard library, state and model.
Must never enter: what a request is about.
"""
