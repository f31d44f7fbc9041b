"""Decide and make a sandbox's connections: the gateway's side of `network.allow` and `internet`.

May import: approvals, decide, scheduling and below.
Must never enter: a second path out of a sandbox: `reaching` is the only one.
"""
