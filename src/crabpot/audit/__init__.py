"""What happened: who asked, what was decided and by which rule, where it ran, how it ended."""

FILE_NAME = "audit.db"
