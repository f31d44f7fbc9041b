"""What happened: who asked, what was decided and by which rule, where it ran, how it ended.

May import: decide, state and below.
Must never enter: file contents and secrets.
"""

FILE_NAME = "audit.db"
