"""The E2B door: the API that the E2B SDKs speak, over the same gateway.

May import: the HTTP door, whose admission, tokens and limits it shares, and below.
Must never enter: decisions. Every command, file and port is a call of the gateway, under the session of a sandbox.
"""
