"""Git on the host in a folder that an agent writes: it runs nothing that the folder says, or it does not run."""
