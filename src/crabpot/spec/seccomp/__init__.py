"""Which system calls a sandbox may make: the rules, and their two spellings (BPF and Docker's JSON).

May import: the standard library only.
Must never enter: loading a filter: that is a backend's work.
"""
