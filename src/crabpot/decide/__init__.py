"""The decisions: WHICH tools (`policy`), WHERE they run (`placement`), WHEN a command is elevated (`elevation`).

May import: spec, settings, model and below.
Must never enter: processes, sockets, clocks and state (what frozen settings decide may be remembered).
"""
