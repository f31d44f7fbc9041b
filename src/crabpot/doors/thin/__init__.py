"""The thin client: `exec`, `mcp` and `prefix` at a gateway that runs, for no more than the price of an interpreter.

May import: the frames of the wire and `local.identity`; everything else only once a person is asked, or to complain.
Must never enter: an import that most calls do not need; decisions.
"""
