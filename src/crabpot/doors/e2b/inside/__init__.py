"""Programs that the E2B door starts in sandboxes, as text: standard library only, and they import nothing of Crabpot.

May import: the standard library.
Must never enter: trust. What these programs answer is checked like everything else from inside.
"""
