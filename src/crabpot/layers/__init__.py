"""What sessions wrote over folders under review: where a layer lies, whose it is, and what becomes of it.

May import: approvals, audit, config, decide, spec, settings, model, state, errors, runner.
Must never enter: sandboxes and backends, which mount a layer; trust in anything that lies in one.
"""
