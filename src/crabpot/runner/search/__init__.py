"""The tools grep and glob: walking a tree, applying ignore rules, matching.

May import: `core`, `files`.
Must never enter: a search in the runner's own process.
"""
