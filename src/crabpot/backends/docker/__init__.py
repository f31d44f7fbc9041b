"""The same spec on a local Docker engine: one container for each scope key, whose main process is the runner.

One opening, file by file: `location` finds the engine and `engine` speaks to it; `facts` are found out once about it,
`image` once about an image, `folders` about a workspace. `user` says who a container runs as, `profile` which system
calls it has, `kit` what of Crabpot's own goes into it; `render` turns all that into the body of a create request.
`naming` makes the container, `starting` attaches to it, starts it, has `inspection` look at it from outside and
greets its runner; `sandbox` is what lives then, `counters` say which limit struck in it, and `removal` ends it.
`owner`, `orphans`, `guard` and `watchdog` see to it that nothing outlives its gateway; `clauses` reports, `remedy`
explains, and `backend` ties it together.
"""
