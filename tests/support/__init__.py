"""What tests build with: plain modules, imported where they are needed and fully typed. Nothing here is a test."""
