"""Which connections a sandbox may make, and making them: the gateway's side of `network.allow` and `internet`.

May import: approvals, decide, scheduling and below.
Must never enter: a second way out: `reaching` is the only one.
"""
