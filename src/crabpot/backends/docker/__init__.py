"""The same spec on a local Docker engine: one container for each scope key, whose main process is the runner.

One opening, module by module: `location` finds the engine and `engine` talks to it; `facts` are read once per engine,
`image` once per image, `folders` per workspace. `user` decides whom a container runs as, `profile` which system calls
it has, `bundle` what of Crabpot goes into it; `render` turns all that into the body of a create request. `naming`
creates the container; `opening` attaches to it, starts it, has `inspection` check it from outside and greets its
runner. `sandbox` is the live sandbox, `counters` tell which limit was hit in it, and `removal` ends it. `owner`,
`orphans`, `watching` and `watchdog` make sure that nothing outlives its gateway; `clauses` reports, `remedy` explains,
and `backend` ties it together.
"""
