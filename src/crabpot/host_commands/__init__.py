"""Elevated commands: planned, approved, confined and run on the host.

May import: sandboxes, backends, approvals and below.
Must never enter: the decision to elevate (`decide.elevation`); programs that read an agent's files outside a guard.
"""
