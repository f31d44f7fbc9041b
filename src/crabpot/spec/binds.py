"""Which host paths a sandbox may have: read a bind, resolve its links, refuse what gives the machine away."""

from __future__ import annotations

import os
import posixpath
from typing import TYPE_CHECKING

from crabpot.frozen import dataclass
from crabpot.spec.hardening import HOME, OVER_WHICH_NOTHING, RESERVED_TARGETS
from crabpot.spec.spec import Access, Mount

if TYPE_CHECKING:
    from collections.abc import Iterator

_SYSTEM = ("/etc", "/proc", "/sys", "/dev", "/boot", "/run", "/var/run", "/root")

_SYSTEM_FOLDER, _CREDENTIAL_PLACE = "a system folder", "a place of credentials or start-up files"

_SHARED_BY_ALL = ("/tmp", "/var/tmp")  # noqa: S108  named to be refused

_RUNTIME_STATE = ("/var/lib/docker", "/var/lib/containerd", "/var/lib/containers", "/var/lib/kubelet")

_SOCKET_NAMES = frozenset(
    {
        "docker.sock",
        "docker-desktop.sock",
        "podman.sock",
        "containerd.sock",
        "crio.sock",
        "buildkitd.sock",
        "dockershim.sock",
    }
)

# Folders and files of a home that contain keys, tokens, or programs that the person's own shell would run.
_CREDENTIALS = (
    ".ssh .aws .azure .gnupg .docker .kube .netrc .npmrc .pypirc .config .git-credentials .gitconfig .pgpass "
    ".my.cnf .vault-token .terraform.d .cargo/credentials .cargo/credentials.toml .gem/credentials .m2/settings.xml "
    ".password-store .mozilla .thunderbird .local/share/keyrings .local/bin .claude .claude.json .codex .openclaw "
    ".bashrc .bash_profile .bash_login .profile .zshrc .zshenv .zprofile .env .envrc .colima .orbstack .rd .lima "
    ".local/state/crabpot .local/share/containers .gcloud .boto .s3cfg .oci .databrickscfg .netlify .heroku "
    ".bash_history .zsh_history .python_history .node_repl_history .psql_history .mysql_history .local/share/fish "
    ".Xauthority .ICEauthority .pki .authinfo .authinfo.gpg .msmtprc .fetchmailrc .muttrc .mutt .mylogin.cnf "
    ".gemini .cursor .copilot .local/share/opencode .huggingface .kaggle .fly .pulumi .ngrok2 .minikube .terraformrc "
    ".dockercfg .yarnrc.yml .bundle/config .composer/auth.json .nuget/NuGet .subversion .rclone.conf .hgrc "
    ".electrum .bitcoin .ethereum .keychain .op .var/app snap"
).split()

# Of these, what contains programs and no secret: read-only it gives nothing away.
_PROGRAMS = (".local/bin",)

# What only root can read, and so only a root gateway could show.
_SECRETS_OF_ROOT = (
    *("/etc/shadow", "/etc/shadow-", "/etc/gshadow", "/etc/gshadow-", "/etc/ssl/private", "/etc/krb5.keytab"),
    *("/etc/wireguard", "/etc/NetworkManager/system-connections", "/etc/kubernetes", "/etc/rancher", "/etc/docker"),
    *("/etc/ssh/ssh_host_rsa_key", "/etc/ssh/ssh_host_ecdsa_key", "/etc/ssh/ssh_host_ed25519_key"),
)

# The one part of Crabpot's own state that may be shown: packages of MCP servers, as they came from a registry.
_PACKAGES = "packages"
# Of these, the one whose folders a whole agent works with.
_AGENT_HOME = ".openclaw"


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What the machine says of itself: the homes, and where Crabpot keeps its own files."""

    home: str
    state: str
    config: str = ""
    runtime_sockets: tuple[str, ...] = ()
    # Homes that the environment does not name: the account's own, and for root everybody's.
    other_homes: tuple[str, ...] = ()
    # What the gateway itself runs from; written by an agent, it would be the agent's code on the host.
    code: tuple[str, ...] = ()
    # Where credentials are instead of in their usual places: named by the environment or the configuration.
    keys: tuple[str, ...] = ()

    def homes(self) -> tuple[str, ...]:
        """Return the homes as written and as they resolve."""
        return tuple(dict.fromkeys(form for home in self._homes() for form in (home, os.path.realpath(home))))

    def _homes(self) -> tuple[str, ...]:
        return (self.home, *self.other_homes)

    def protected(self) -> Iterator[tuple[str, str]]:
        """Yield what no bind may equal, lie under or contain, each as written and as it resolves."""
        for tree, what in self._trees():
            for form in dict.fromkeys((tree, os.path.realpath(tree))):
                yield form, what

    def secrets(self) -> Iterator[str]:
        """Yield what no command of an agent sees unless it is named: places of credentials, and Crabpot's own."""
        for home in self._homes():
            yield from (f"{home}/{name}" for name in _CREDENTIALS if name not in _PROGRAMS)
        yield from _SECRETS_OF_ROOT
        yield from _RUNTIME_STATE
        yield from self.runtime_sockets
        yield from self.keys
        yield from filter(None, (self.config, self.state))

    def _trees(self) -> Iterator[tuple[str, str]]:
        yield from ((path, _SYSTEM_FOLDER) for path in _SYSTEM)
        yield from ((path, "a container runtime's own folder") for path in _RUNTIME_STATE)
        yield from ((path, "a container runtime's socket") for path in self.runtime_sockets)
        for home in self._homes():
            yield from ((f"{home}/{name}", _CREDENTIAL_PLACE) for name in _CREDENTIALS)
        yield from ((path, _CREDENTIAL_PLACE) for path in self.keys)
        if self.config:
            yield self.config, "Crabpot's own configuration"
        yield self.state, "Crabpot's own state"


class BindRefused(ValueError):
    """A bind that no configuration opens, with the resolved path and the reason."""


def parse(text: str) -> tuple[str, str, Access]:
    """Split `host:container[:ro|rw]`; the default is ro. ValueError says what would be right."""
    parts = text.split(":")
    if len(parts) not in (2, 3) or not all(parts):
        raise BindRefused(f'"{text}" must read host:container, host:container:ro or host:container:rw')
    source, target, access = parts[0], parts[1], (parts[2] if len(parts) == 3 else "ro")  # noqa: PLR2004
    if access not in ("ro", "rw"):
        raise BindRefused(f'"{text}": the mode is ro or rw, not "{access}"')
    if "\0" in text:
        raise BindRefused("a path cannot contain a NUL character")
    return source, target, "rw" if access == "rw" else "ro"


def mount(text: str, around: Surroundings) -> Mount:
    """Read one bind, refuse what must not be bound, and resolve its source as far as it exists."""
    written, target, access = parse(text)
    source = expand(written, around.home)
    if not source.startswith("/"):
        raise BindRefused(f'"{written}" must be an absolute path')
    refusal = refuse_source(source, around) or (refuse_writing(source, around) if access == "rw" else None)
    if refusal:
        raise BindRefused(refusal)
    return Mount(source=os.path.realpath(source), target=check_target(target), access=access)


def program(source: str, around: Surroundings) -> Mount:
    """Return the read-only mount of a program's own folder or file, at its own path."""
    path = expand(source, around.home)
    if not path.startswith("/"):
        raise BindRefused(f'"{source}" must be an absolute path')
    refusal = refuse_program(path, around)
    if refusal:
        raise BindRefused(refusal)
    real = os.path.realpath(path)
    taken = next((place for place in OVER_WHICH_NOTHING if real == place or is_under(real, place)), None)
    if taken is not None:
        raise BindRefused(f'"{source}" is refused: inside, {taken} is the sandbox\'s own')
    return Mount(source=real, target=real, access="ro")


def refuse_program(source: str, around: Surroundings) -> str | None:
    """Return why a program's folder must not be shown, or None.

    Like a workspace it may lie under root's home if that is the gateway's own; what is in ~/.local/bin is programs.
    """
    sealed = [os.path.join(form, _PACKAGES) for form in (normal(around.state), os.path.realpath(around.state))]
    if all(any(is_under(path, tree) for tree in sealed) for path in (normal(source), os.path.realpath(source))):
        return None
    own = {form for home in around.homes() for form in (home, *(f"{home}/{name}" for name in _PROGRAMS))}
    first = [path for path in (normal(source), os.path.realpath(source)) if os.path.dirname(path) in around.homes()]
    if first and os.path.isdir(first[0]):
        return f'"{source}" is refused: it is a first-level folder of the home, where other programs keep their keys'
    whole = [path for path in (normal(source), os.path.realpath(source)) if path in own]
    trees = [(tree, what) for tree, what in around.protected() if tree not in own or whole]
    return _refuse(source, around, trees)


def expand(path: str, home: str) -> str:
    """Expand a leading `~`, for the one home that matters, the gateway's."""
    return home + path[1:] if path == "~" or path.startswith("~/") else path


def check_target(target: str) -> str:
    """Normalise where a bind is mounted inside, and refuse what the sandbox relies on."""
    if not target.startswith("/"):
        raise BindRefused(f'"{target}" must be an absolute path inside the sandbox')
    landing = normal(target)
    if ".." in target.split("/"):
        raise BindRefused(f'"{target}" must not climb with ".."')
    for reserved in ("/", *RESERVED_TARGETS):
        if landing == reserved or (reserved != "/" and is_under(landing, reserved)):
            raise BindRefused(
                f'"{target}" is reserved inside the sandbox ({reserved}); choose another place such as /data'
            )
        if is_under(reserved, landing):
            raise BindRefused(f'"{target}" would hide {reserved}, reserved inside the sandbox; use a place below it')
    return landing


def refuse_source(source: str, around: Surroundings) -> str | None:
    """Return why a host path must not be bound, or None. Both the written and the resolved path are judged."""
    return _refuse(source, around, list(around.protected()))


def refuse_workspace(source: str, around: Surroundings) -> str | None:
    """Return the same for an agent's workspace, which may lie under root's home if that is the gateway's own."""
    exempt = (around.home, os.path.realpath(around.home))
    trees = [(tree, what) for tree, what in around.protected() if tree not in exempt or what != _SYSTEM_FOLDER]
    return _refuse(source, around, trees)


def refuse_landing(source: str, *, home: bool) -> str | None:
    """Return why an agent's folder cannot appear inside at its own path, or None."""
    path = os.path.realpath(source)
    for place in (*OVER_WHICH_NOTHING, *((HOME,) if home else ())):
        if path == place or is_under(path, place) or is_under(place, path):
            why = "the private home is there" if place == HOME else "the sandbox relies on what is there"
            fix = 'move it, or use workspaceAt: "/workspace"'
            return f'"{source}" is refused with workspaceAt "same": inside, {place} is taken ({why}); {fix}'
    return None


def refuse_volume(source: str, around: Surroundings) -> str | None:
    """Return the same for a whole agent's own container, which may have single folders of that agent's home."""
    homes = [f"{home}/{_AGENT_HOME}" for home in around.homes()]
    exempt = {form for home in homes for form in (home, os.path.realpath(home))}
    inside = [any(is_under(path, tree) for tree in exempt) for path in (normal(source), os.path.realpath(source))]
    return _refuse(source, around, [one for one in around.protected() if one[0] not in exempt or not all(inside)])


def refuse_writing(source: str, around: Surroundings) -> str | None:
    """Return why an agent must not write a host path that it may otherwise have, or None."""
    for path in dict.fromkeys((normal(source), os.path.realpath(source))):
        for tree in around.code:
            if path == tree or is_under(path, tree) or is_under(tree, path):
                return f'"{source}" is refused with rw: {tree} is what Crabpot itself runs from'
    return None


def _refuse(source: str, around: Surroundings, trees: list[tuple[str, str]]) -> str | None:
    try:
        resolved = os.path.realpath(source)
    except OSError as error:
        # A link that may not be read, such as /proc/1/root, could lead anywhere.
        return f'"{source}" is refused: where it leads is unknown ({error.strerror})'
    for path in dict.fromkeys((normal(source), resolved)):
        reason = _reason(path, trees, around.homes())
        if reason:
            link = f" (resolves to {resolved})" if resolved != source else ""
            return f'"{source}"{link} is refused: {reason}'
    return None


def _reason(path: str, trees: list[tuple[str, str]], homes: tuple[str, ...]) -> str | None:
    if path == "/":
        return "it is the whole host"
    if path in _SHARED_BY_ALL:
        return "host programs keep their sockets and files there; bind one folder of it"
    if os.path.basename(path) in _SOCKET_NAMES:
        return "it is a container runtime's socket, which gives away the whole host"
    if held := next((name for name in sorted(_SOCKET_NAMES) if os.path.lexists(os.path.join(path, name))), None):
        return f"it contains {held}, a container runtime's socket, which gives away the whole host"
    for tree, what in trees:
        if path == tree:
            return f"it is {what}"
        if is_under(path, tree):
            return f"it lies under {tree}, {what}"
        if is_under(tree, path):
            return f"it contains {tree}, {what}"
    if any(path == home or is_under(home, path) for home in homes):
        return "it is the home folder, or contains it; bind one folder of it"
    return None


def normal(path: str) -> str:
    """Return an absolute path without `.`, `..` and doubled slashes, as text."""
    # normpath keeps a leading double slash, which POSIX leaves open and Linux reads as one.
    return "/" + posixpath.normpath(path).lstrip("/")


def is_under(path: str, tree: str) -> bool:
    """Return whether a path lies strictly below a folder, as text."""
    return path.startswith(tree.rstrip("/") + "/")
