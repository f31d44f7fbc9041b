"""Whether this machine can confine an agent: kernel, bwrap, Docker and Crabpot's own files, and what fixes them.

May import: backends and below.
Must never enter: changes to the machine.
"""
