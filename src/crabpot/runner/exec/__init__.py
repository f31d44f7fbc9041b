"""Commands: starting them, their output, their process trees and their end.

May import: `core`.
Must never enter: shell text that is not a command's own.
"""
