"""What a sandbox is: mounts, network, limits and system calls, as frozen data independent of any backend.

May import: settings, model and below.
Must never enter: processes, sockets, and anything that only one backend needs.
"""
