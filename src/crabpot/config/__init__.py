"""Text to settings: finding, reading, merging and editing the configuration file.

May import: decide, spec, settings and below.
Must never enter: defaults: they are in `settings`.
"""
