"""How a spec becomes a sandbox: one small protocol (`base`), and the choice among the backends that implement it.

May import: wire, spec and below.
Must never enter: decisions about sessions, and imports from one backend to another: what several share is in `linux`.
"""
