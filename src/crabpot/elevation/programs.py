"""What well-known programs would execute from the folder they start in, and which of them hand over the machine."""

from __future__ import annotations

import hashlib
import json
import os
import stat

from crabpot.elevation.patterns import SHELLS_AND_INTERPRETERS, danger

_JAVASCRIPT = ("package.json", ".npmrc", ".pnpmfile.cjs", ".yarnrc", ".yarnrc.yml", "bunfig.toml", "deno.json")
_PYTHON = ("setup.py", "pyproject.toml", "setup.cfg", "requirements.txt", "conftest.py", "tox.ini", "noxfile.py")
_CONTAINERS = (
    *("Dockerfile", "Containerfile", ".dockerignore"),
    *("compose.yaml", "compose.yml", "docker-compose.yaml", "docker-compose.yml", "docker-bake.hcl"),
)

# A program's name, and the files of its folder whose content it runs or obeys.
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
    "ansible-playbook": ("ansible.cfg",),
    "ansible": ("ansible.cfg",),
    **dict.fromkeys(("terraform", "tofu"), ("main.tf", ".terraformrc")),
    "direnv": (".envrc",),
    **dict.fromkeys(("vim", "vi", "nvim"), (".vimrc", ".exrc", ".nvim.lua")),
    "gdb": (".gdbinit",),
    "tmux": (".tmux.conf",),
    **dict.fromkeys(("kubectl", "helm"), ("kustomization.yaml", "Chart.yaml")),
}

# They start git in the folder, or are parts of it.
USES_GIT = frozenset(
    "git gh glab hub tig lazygit gitk git-lfs git-receive-pack git-upload-pack git-upload-archive git-shell "
    "scalar".split()
)

_LARGEST, _LARGEST_TOLD = 256 * 1024, 4 * 1024 * 1024
_MOST_SHOWN = 20


def executes(argv: tuple[str, ...], folder: int) -> tuple[str, ...]:
    """List what a program would run or obey of the folder, as far as the program is known."""
    obeyed = [name for name in EXECUTES.get(argv[0], ()) if _is_there(name, folder)]
    found = [f"{name} ({argv[0]} runs what it says; {_content(name, folder)})" for name in obeyed]
    if "package.json" in EXECUTES.get(argv[0], ()):
        found += [f"package.json script {line}" for line in _scripts(folder)]
    bare = argv[0].rstrip("0123456789.") or argv[0]
    if bare in SHELLS_AND_INTERPRETERS:
        files = [word for word in argv[1:] if not word.startswith("-") and _is_there(word, folder)]
        found += [f"{name} (a file of the folder, run as a program; {_content(name, folder)})" for name in files]
    return tuple(found)


def dangers(argv: tuple[str, ...]) -> tuple[str, ...]:
    """Say what these words hand over beyond what they seem to."""
    if argv[0] == "git":
        return ()
    handed = danger(f"{argv[0]} *")
    return () if handed is None else (handed,)


def _is_there(name: str, folder: int) -> bool:
    if name.startswith("/") or "\0" in name:
        return False
    try:
        os.stat(name, dir_fd=folder, follow_symlinks=False)
    except OSError:
        return False
    return True


def _content(name: str, folder: int) -> str:
    """Tell what a file says from whatever it says later: a lease, or an answer, is not for another content."""
    try:
        fd = os.open(name, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
        with open(fd, "rb") as file:
            found = os.fstat(fd)
            if stat.S_ISREG(found.st_mode) and found.st_size <= _LARGEST_TOLD:
                return f"sha256 {hashlib.file_digest(file, 'sha256').hexdigest()[:16]}"
    except OSError:
        return "not readable"
    # The agent can set the times of a file, but not the moment of its last change.
    return f"inode {found.st_ino}, changed {found.st_ctime_ns}"


def _scripts(folder: int) -> list[str]:
    """Read the scripts of a package.json, which the agent may have filled with anything."""
    try:
        fd = os.open("package.json", os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
        with open(fd, "rb") as file:
            if not stat.S_ISREG(os.fstat(fd).st_mode):
                return []
            scripts = json.loads(file.read(_LARGEST)).get("scripts", {})
        return [f"{name}: {text}" for name, text in list(scripts.items())[:_MOST_SHOWN]]
    except (OSError, ValueError, AttributeError, RecursionError):
        return []
