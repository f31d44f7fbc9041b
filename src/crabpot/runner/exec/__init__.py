"""Commands: their start, output, process trees and end.

May import: `core`.
Must never enter: shell text other than the command's own.
"""
