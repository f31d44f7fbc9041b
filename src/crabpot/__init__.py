"""Crabpot keeps an AI agent's tool calls inside a pot: which tools, where they run, when one may leave."""

__version__ = "0.1.0"
