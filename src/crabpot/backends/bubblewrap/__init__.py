"""The embedded default backend: a sandbox from user namespaces, with no daemon, no image and no root.

One opening, file by file: `user` says who it runs as, `sources` holds open what is mounted, `groups` makes
its control group, `render` turns spec and facts into bwrap's arguments, `process` starts it, `seal` finishes
it from inside, and `sandbox` is what lives then. `probe` (kept by `remembered`) and `kit` are done once;
`clauses` reports; `backend` ties it together.
"""
