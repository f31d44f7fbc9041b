"""Git that needs a network or credentials, relayed through a clean repository of the gateway's own.

The sandbox's own git creates and reads packs. They pass, checked, through a bare repository that the gateway created
(`store`), where the host's git works with the operator's keys. No program of the host reads the agent's `.git`.
"""
