"""Images for sandboxes: what is in one (`packages`, `recipe`), and two ways to make it (`building`).

`dockerfile` writes the recipe down for the engine's own builder; `bootstrap` has mmdebstrap make a file system from
Debian's packages, with no registry of images. `machine` looks first whether there is room, `sending` speaks to the
engine, and `listing` tells which images Crabpot made.
"""
