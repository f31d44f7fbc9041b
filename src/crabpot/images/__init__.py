"""Images for sandboxes: what is in one (`packages`, `recipe`), and two ways to make it (`building`).

`dockerfile` writes the recipe for the engine's own builder; `bootstrap` lets mmdebstrap make a file system from
Debian's packages, without an image registry. `machine` checks first whether there is room, `sending` talks to the
engine, and `listing` finds the images that Crabpot made.
"""
