"""Images for docker sandboxes: what is in one, and two ways to make it (the engine's builder, or Debian's packages).

May import: backends and below.
Must never enter: walls; an image holds programs, and a backend confines them.
"""
