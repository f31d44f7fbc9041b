"""The gateway's end of the stream to a runner: frames, calls, upcalls and flow control. Hostile input ends here.

May import: approvals, config and below, and the runner's frames.
Must never enter: trust in what arrives, and how a stream was opened.
"""
