"""The routes of the HTTP door: calls for agents, operations and the dashboard for operators.

May import: the gateway, `access` and below.
Must never enter: decisions.
"""
