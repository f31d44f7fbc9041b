"""What makes a sandbox from a spec: one small protocol (`base`), and the choice among those that implement it.

May import: wire, spec and below.
Must never enter: decisions about sessions, and imports from one backend to another: what several need is in `linux`.
"""
