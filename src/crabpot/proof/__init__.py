"""Proof that it holds: attacks (`verify`), promises of every backend (`conformance`), the machine (`doctor`).

May import: everything below the doors.
Must never enter: anything that a call needs; nothing here is on its path.
"""
