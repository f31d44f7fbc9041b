"""Files and commands for use without Crabpot: the hardening of a live sandbox, written down. Pure, from spec to text.

`container` describes the container in the words of the engine's API, with the walls and limits of a live sandbox
(`backends/docker/render.py`) around any image. `docker_run` and `compose` spell that description; `volumes` and `ports`
read what a person asked for. `apparmor` stands alone; `runner` is that of a
runner on a socket.
"""
