"""What a person does with the changes of a session under review: list, compare, apply, undo and discard them.

May import: as `host_commands`.
Must never enter: how a layer is read or applied (`layers.changes`); a host's git that reads the agent's repository.
"""
