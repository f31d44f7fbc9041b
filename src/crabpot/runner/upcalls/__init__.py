"""What programs inside ask of the gateway: connections and host commands.

May import: `core`.
Must never enter: decisions, which the gateway makes.
"""
