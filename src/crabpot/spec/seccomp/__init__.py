"""Which system calls a sandbox may make: the rules, and their two forms (BPF and Docker's JSON).

May import: the standard library only.
Must never enter: loading a filter, which is a backend's work.
"""
