"""The attacks: one function for each claim, whose name is the claim."""
