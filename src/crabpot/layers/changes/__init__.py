"""What is done with a finished layer on the host: its changes are read, judged, applied, undone and discarded.

May import: as `layers`.
Must never enter: a link that is followed, a name that is trusted, a program: a layer's content is hostile.
"""
