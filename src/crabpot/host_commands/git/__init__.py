"""Git that needs a network or credentials, by a clean repository of the gateway's own.

The sandbox's own git makes and takes packs. They pass, checked, through a bare repository that the gateway made
(`store`), and the host's git works there with the operator's keys. No program of the host reads the agent's `.git`.
"""
