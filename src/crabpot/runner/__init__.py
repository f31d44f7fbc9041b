"""The program inside every sandbox that executes tool calls: standard library only, nothing of the rest of Crabpot."""
