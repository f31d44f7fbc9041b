"""The ways in. No door decides anything."""
