"""Data about known programs: what they need on the host, execute from an agent's folder, and hand over.

A guard shows a command the host's files read-only, without sockets or credentials. A program that needs more is listed
here with what it needs. One that is not listed gets nothing more, and is always assumed to execute files of the folder.
"""

from __future__ import annotations

from crabpot.frozen import dataclass

SHELLS_AND_INTERPRETERS = frozenset(
    "sh bash dash zsh ksh fish csh tcsh busybox python python2 python3 perl ruby node nodejs deno bun php lua awk "
    "gawk mawk sed tclsh osascript pwsh".split()
)
WRAPPERS = frozenset(
    "sudo doas su env xargs nohup nice ionice timeout time watch find parallel script ssh tmux screen setsid stdbuf "
    "unshare nsenter chroot systemd-run pkexec runuser flock strace gdb ld.so expect vim vi ed less more man "
    "tar rsync ip".split()
)
BUILDERS = frozenset(
    "make gmake cmake ninja meson just rake bundle composer npm npx pnpm yarn cargo go gradle mvn pip pip3 uv poetry "
    "hatch tox nox pytest pre-commit ansible ansible-playbook terraform tofu direnv kubectl helm".split()
)
CONTAINERS = frozenset("docker podman nerdctl docker-compose buildah ctr crictl lxc lxd qemu".split())

# Whatever their arguments, they run no program, write no file and show no file's content.
HARMLESS = frozenset(
    "ls uptime uname df free ps id whoami hostname nproc lscpu lsblk ss ping getent echo true false stat sleep "
    "journalctl".split()
)
# They run and write nothing, but the agent gets what they print.
_SHOW_FILES = frozenset("cat head tail wc date du".split())

# They work on the machine as a whole, wherever they start.
_MACHINE = frozenset("brew systemctl date".split())

# They change files, but run none of them.
_CHANGE_FILES = frozenset("touch mkdir rmdir cp mv rm ln".split())

_JAVASCRIPT = ("package.json", ".npmrc", ".pnpmfile.cjs", ".yarnrc", ".yarnrc.yml", "bunfig.toml", "deno.json")
_PYTHON = ("setup.py", "pyproject.toml", "setup.cfg", "requirements.txt", "conftest.py", "tox.ini", "noxfile.py")
_CONTAINERS = (
    *("Dockerfile", "Containerfile", ".dockerignore"),
    *("compose.yaml", "compose.yml", "docker-compose.yaml", "docker-compose.yml", "docker-bake.hcl"),
)

# A program's name, and the files of its folder that it runs or obeys, which are shown before anybody agrees.
EXECUTES: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("make", "gmake"), ("GNUmakefile", "makefile", "Makefile")),
    **dict.fromkeys(("npm", "npx", "yarn", "pnpm", "bun", "deno", "node", "nodejs"), _JAVASCRIPT),
    **dict.fromkeys(("pip", "pip3", "uv", "poetry", "tox", "nox", "pytest", "python", "python3", "hatch"), _PYTHON),
    **dict.fromkeys(("docker", "podman", "nerdctl", "docker-compose", "buildah"), _CONTAINERS),
    "cargo": ("build.rs", "Cargo.toml", ".cargo/config.toml", ".cargo/config", "rust-toolchain.toml"),
    "go": ("go.mod", "go.work", "go.env"),
    "cmake": ("CMakeLists.txt", "CMakePresets.json", "CMakeUserPresets.json"),
    "ninja": ("build.ninja",),
    "meson": ("meson.build",),
    "just": ("justfile", "Justfile", ".justfile"),
    "rake": ("Rakefile", "rakefile"),
    "bundle": ("Gemfile", ".bundle/config"),
    "composer": ("composer.json",),
    "mvn": ("pom.xml", ".mvn/jvm.config", ".mvn/extensions.xml"),
    "gradle": ("build.gradle", "build.gradle.kts", "settings.gradle", "settings.gradle.kts", "gradle.properties"),
    "pre-commit": (".pre-commit-config.yaml",),
    "brew": ("Brewfile",),
    **dict.fromkeys(("ansible-playbook", "ansible"), ("ansible.cfg",)),
    **dict.fromkeys(("terraform", "tofu"), ("main.tf", ".terraformrc")),
    "direnv": (".envrc",),
    **dict.fromkeys(("vim", "vi", "nvim"), (".vimrc", ".exrc", ".nvim.lua")),
    "gdb": (".gdbinit",),
    "tmux": (".tmux.conf",),
    **dict.fromkeys(("kubectl", "helm"), ("kustomization.yaml", "Chart.yaml")),
}

# They start git in the folder, which runs whatever the repository there configures.
USES_GIT = frozenset("git gh glab hub tig lazygit gitk git-lfs scalar".split())


@dataclass(frozen=True, slots=True, kw_only=True)
class Needs:
    """What a program needs beyond what every guard gives. A path may begin with `~/`; a missing one is ignored."""

    shows: tuple[str, ...] = ()
    """Paths below /run that it reads, and sockets that it connects to."""
    writes: tuple[str, ...] = ()
    credentials: tuple[str, ...] = ()
    network: bool = True
    variables: tuple[tuple[str, str], ...] = ()


_NONE = Needs()
_HOMEBREW = ("/home/linuxbrew/.linuxbrew", "/opt/homebrew", "/usr/local/Homebrew", "~/.linuxbrew", "~/.cache/Homebrew")
# Not /run/systemd/private: a guard has processes of its own, and systemctl leaves a peer that it cannot see.
_UNITS = tuple(f"/run/systemd/{name}" for name in ("system", "units", "generator", "transient"))

_NEEDS: dict[str, Needs] = {
    # Its own installation: installing there is what was agreed to.
    "brew": Needs(writes=_HOMEBREW),
    **dict.fromkeys(("docker", "docker-compose"), Needs(credentials=("docker",))),
    "systemctl": Needs(
        shows=(*_UNITS, "/run/dbus/system_bus_socket", "/run/log", "/run/utmp"),
        # Root's would take the private socket otherwise.
        variables=(("SYSTEMCTL_FORCE_BUS", "1"),),
    ),
    "journalctl": Needs(shows=("/run/log",)),
    # Git that needs a network or credentials is relayed instead (host_commands.git).
    "git": Needs(network=False),
}

# Verbs of systemctl that only read.
_LOOKS = frozenset(
    "status show cat is-active is-enabled is-failed list-units list-unit-files list-timers list-sockets".split()
)


def needs(argv: tuple[str, ...]) -> Needs:
    """Return what a command needs beyond what every guard gives."""
    return _NEEDS.get(argv[0], _NONE)


def executes_nothing(argv: tuple[str, ...]) -> bool:
    """Return whether a command is known to execute nothing from its folder, so that a lease may cover it."""
    return argv[0] in _SHOW_FILES | _CHANGE_FILES or is_harmless(argv)


def needs_no_folder(argv: tuple[str, ...]) -> bool:
    """Return whether a command does the same in an empty folder, as what is about the whole machine does."""
    return argv[0] in _MACHINE or is_harmless(argv)


def leaves_review(argv: tuple[str, ...]) -> bool:
    """Return whether a session under review may ask for a program on the host: git may be relayed."""
    return argv[:1] == ("git",) or (bool(argv) and needs_no_folder(argv))


def is_harmless(argv: tuple[str, ...]) -> bool:
    """Return whether a command is known to run no program, write no file and show no file's content."""
    return argv[0] in HARMLESS or (argv[0] == "systemctl" and len(argv) > 1 and argv[1] in _LOOKS)


def danger(pattern: str) -> str | None:
    """Return what a pattern hands over beyond what it seems to; None only where it is known to hand over nothing."""
    words = pattern.split()
    if not words:
        return None
    name = words[0]
    bare = name.rstrip("0123456789.") or name
    if name == "git" or is_harmless(tuple(words)):
        return None
    if not any("*" in word or "?" in word for word in words[1:]):
        reads_files = name in BUILDERS or (len(words) > 1 and bare in SHELLS_AND_INTERPRETERS)
        return f"{name} runs what files say that the agent may have written" if reads_files else None
    if name in _SHOW_FILES:
        return f"{name} gives the agent any file of the host that its arguments name"
    if name in CONTAINERS:
        return f"{name} can mount the whole host"
    if bare in SHELLS_AND_INTERPRETERS:
        return f"{name} runs any program text that it is given"
    if name in WRAPPERS or name in BUILDERS:
        return f"{name} runs other programs that its arguments or files name"
    return f"{name} is not known to be harmless with any arguments: it may run, read or send what they name"
