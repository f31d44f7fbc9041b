"""Files and commands for use without Crabpot, with the hardening of a live sandbox. Pure, from spec to text.

`container` describes the container in the terms of the engine's API, with the walls and limits of a live sandbox
(`backends/docker/render.py`) around any image. `docker_run` and `compose` spell that description; `volumes` and `ports`
parse what a person asked for. `apparmor` stands alone; `runner` is the container of a runner on a
socket.
"""
