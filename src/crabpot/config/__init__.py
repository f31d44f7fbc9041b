"""Text → settings."""
