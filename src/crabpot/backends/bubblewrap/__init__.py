"""The embedded default backend: a sandbox from user namespaces, with no daemon, no image and no root.

One opening, module by module: `user` decides whom it runs as, `held_files` holds open what is mounted, `cgroups` makes
its control group, `render` turns spec and facts into bwrap's arguments, `processes` starts it, `seal` finishes it from
inside, and `sandbox` is the live sandbox. `probe` (cached by `probe_cache`) and `bundle` are done once; `clauses`
reports; `backend` ties it together.
"""
