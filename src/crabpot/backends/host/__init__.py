"""No sandbox: the same runner, unconfined, in the agent's workspace."""
