"""What of Crabpot goes into a sandbox: the runner, the seal and the filter, prepared once and stored.

A copy, because the package may lie where the sandbox's user cannot look, and compiled, because the interpreter inside
may differ from the gateway's and could never write its cache into a read-only folder: every sandbox would compile it
again.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import sys
import time
from typing import TYPE_CHECKING

import crabpot.spec.seccomp
from crabpot.backends import runner_source
from crabpot.backends.bubblewrap import render
from crabpot.backends.linux import owner
from crabpot.errors import SandboxUnavailable
from crabpot.frozen import dataclass
from crabpot.state.ownership import make_own
from crabpot.state.removal import remove_tree

if TYPE_CHECKING:
    from collections.abc import Iterator

SEAL, FILTER = "seal.pyc", "seccomp.bpf"
# What puts up the walls from inside. Away from their sources, which an import would prefer.
_WALLS = ("seal", "tree", "forks")

_READ_AND_ENTER = 0o005
_BUILD_TIMEOUT_S = 60.0
# Far beyond the age at which sandboxes are pruned: a live one imports from its bundle as it goes.
_UNUSED_S = 30 * 86_400
_SYSTEM_PYTHONS = (
    "/usr/bin/python3",
    "/usr/local/bin/python3",
    *(f"/usr/bin/python3.{minor}" for minor in range(20, 8, -1)),
)

# Run by the interpreter that the sandbox will use: shows that it can import the runner, and compiles for it.
# What the runner imports at start-up becomes one file, in the order in which imports ended: looking for each of them
# takes longer than running it. For the same reason they do not import `__future__` (the compiler has its flag instead),
# and have no annotations, which every sandbox would read and keep in its memory. Twelve bytes after the magic number
# of a wall's file say that nothing need be compared (PEP 552).
_COMPILE = """
import sys
folder, inside, walls = sys.argv[1:]
assert sys.version_info >= (3, 9), "it is older than 3.9"
import __future__, _ctypes, ast, compileall, marshal, os, py_compile
from importlib.util import MAGIC_NUMBER
from importlib.machinery import SourceFileLoader
execute, order = SourceFileLoader.exec_module, []
def note(loader, module):
    execute(loader, module)
    order.append((module.__name__.partition(".")[2], module.__file__))
SourceFileLoader.exec_module = note
package = type(sys)("crabpot_runner")
package.__path__ = [folder + "/runner"]
sys.modules["crabpot_runner"] = package
sys.dont_write_bytecode = True
import crabpot_runner.core.server
order = [(name, path[len(folder) + 8:]) for name, path in order if "crabpot_runner." + name in sys.modules]
class Bare(ast.NodeTransformer):
    def visit_FunctionDef(self, node):
        node.returns = None
        return self.generic_visit(node)
    def visit_arg(self, node):
        node.annotation = None
        return node
    def visit_AnnAssign(self, node):
        bare = ast.Pass() if node.value is None else ast.Assign([node.target], node.value)
        return self.generic_visit(ast.copy_location(bare, node))
def compiled(path, shown):
    with open(path, "rb") as file:
        source = file.read().replace(b"from __future__ import annotations\\n", b"\\n", 1)
    tree = ast.fix_missing_locations(Bare().visit(ast.parse(source)))
    return compile(tree, shown, "exec", __future__.annotations.compiler_flag, dont_inherit=True)
start = [(name, path, compiled("%s/runner/%s" % (folder, path), "%s/%s" % (inside, path))) for name, path in order]
with open(folder + "/runner/start.bin", "xb") as file:
    file.write(marshal.dumps(start))
for name in walls.split(","):
    code = compiled("%s/source/%s.py" % (folder, name), name + ".py")
    with open("%s/%s.pyc" % (folder, name), "xb") as file:
        file.write(MAGIC_NUMBER + bytes((1, 0, 0, 0)) + bytes(8) + marshal.dumps(code))
mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
done = compileall.compile_dir(folder + "/runner", ddir=inside, quiet=2, invalidation_mode=mode)
assert done, "it cannot compile the runner"
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Interpreter:
    """A Python for the inside; `prefix` is what must be mounted for it where /usr is not enough."""

    path: str
    prefix: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Bundle:
    """A folder with `runner` to mount and the seal, the filter and the fork server; the interpreter they are for."""

    folder: str
    interpreter: Interpreter


def interpreters() -> Iterator[Interpreter]:
    """Yield the Pythons to try: the gateway's own under /usr, the system's, the gateway's own from elsewhere."""
    own = os.path.realpath(getattr(sys, "_base_executable", None) or sys.executable)
    if own.startswith("/usr/"):
        yield Interpreter(path=own)
    for path in _SYSTEM_PYTHONS:
        real = os.path.realpath(path)
        if real.startswith("/usr/") and real != own and os.access(real, os.X_OK):
            yield Interpreter(path=real)
    prefix = os.path.realpath(sys.base_prefix)
    if own.startswith(prefix + "/") and not prefix.startswith("/usr/") and _readable_by_all(prefix, own):
        yield Interpreter(path=own, prefix=prefix)


def _readable_by_all(prefix: str, program: str) -> bool:
    """Return whether the sandbox's user can run it once it is mounted; an ordinary gateway's user is its own."""
    # It is mounted by its path, before there is anything inside that could attach a mount of root's.
    above = [prefix[:end] for end in range(1, len(prefix)) if prefix[end] == "/"]
    return os.geteuid() != 0 or (
        all(os.stat(path).st_mode & _READ_AND_ENTER == _READ_AND_ENTER for path in (prefix, program))
        and all(os.stat(path).st_mode & 0o001 for path in above)
    )


def find(home: str, interpreter: Interpreter | None = None, runner: str = runner_source.FOLDER) -> Bundle | None:
    """Return the bundle of this version, if it exists, for an interpreter, or for the first one to try."""
    # Root's can be entered, not listed, by the user that a sandbox is dropped to.
    make_own(home, 0o711 if os.geteuid() == 0 else 0o700)
    wanted = interpreter or next(interpreters(), None)
    found = None if wanted is None else _bundle_for(home, wanted, runner)
    if found is None or not _is_own(found.folder):
        return None
    os.utime(found.folder)
    return found


def _bundle_for(home: str, interpreter: Interpreter, runner: str) -> Bundle:
    return Bundle(folder=f"{home}/bundle-{_digest(interpreter, runner)}", interpreter=interpreter)


async def prepare(home: str, runner: str = runner_source.FOLDER) -> Bundle:
    """Find the bundle of this version for this machine's interpreter, or make it; `runner` is its source folder."""
    failures = []
    for interpreter in dict.fromkeys(interpreters()):
        found = find(home, interpreter, runner)
        if found is not None:
            return found
        made = _bundle_for(home, interpreter, runner)
        wrong = await _build(made.folder, interpreter, runner)
        if wrong is None:
            _forget_old(home)
            return made
        failures.append(f"{interpreter.path}: {wrong}")
    tried = "; ".join(failures) or "none exists under /usr, and the gateway's own cannot be read by the sandbox's user"
    raise SandboxUnavailable(f"no Python for the inside of the sandbox ({tried}): install python3, 3.9 or newer")


def _is_own(folder: str) -> bool:
    try:
        found = os.lstat(folder)
    except FileNotFoundError:
        return False
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
        raise SandboxUnavailable(f"{folder} is not a folder of this user's; remove it")
    return True


async def _build(folder: str, interpreter: Interpreter, runner: str) -> str | None:
    """Make a bundle beside its place and move it there whole; return what is wrong with the interpreter, or None."""
    # Only the first sandbox of a version pays for these imports.
    from crabpot.backends.linux import processes  # noqa: PLC0415
    from crabpot.spec.seccomp.bpf import assemble  # noqa: PLC0415

    made = f"{os.path.dirname(folder)}/{owner.label(os.urandom(4).hex())}"
    try:
        os.makedirs(f"{made}/runner", mode=0o755)
        for name, path in runner_source.files(runner).items():
            os.makedirs(os.path.dirname(f"{made}/runner/{name}"), mode=0o755, exist_ok=True)
            _copy(path, f"{made}/runner/{name}")
        os.mkdir(f"{made}/source", 0o755)
        for path in _wall_sources():
            _copy(path, f"{made}/source/{os.path.basename(path)}")
        with open(f"{made}/{FILTER}", "xb") as file:
            file.write(assemble(os.uname().machine))
        done = await processes.run(
            [interpreter.path, "-I", "-S", "-c", _COMPILE, made, render.RUNNER, ",".join(_WALLS)],
            timeout_s=_BUILD_TIMEOUT_S,
        )
        if done.code != 0:
            lines = done.output.decode("utf-8", "replace").strip().splitlines()
            return lines[-1] if lines else f"it ended with {done.code}"
        _open_to_all(made)
        try:
            os.rename(made, folder)
        except OSError:
            if not os.path.isdir(folder):  # Another gateway was first; its bundle is the same.
                raise
        return None
    finally:
        with contextlib.suppress(OSError):
            remove_tree(made)


def _wall_sources() -> list[str]:
    folder = os.path.dirname(os.path.abspath(__file__))
    return [f"{folder}/{name}.py" for name in _WALLS]


def _filter_sources() -> list[str]:
    folder = os.path.dirname(os.path.abspath(crabpot.spec.seccomp.__file__))
    return [f"{folder}/{name}.py" for name in ("allowed", "bpf", "numbers", "syscall_rules")]


def _digest(interpreter: Interpreter, runner: str) -> str:
    """Return a digest of all that goes into the bundle."""
    whole = hashlib.sha256(_COMPILE.encode())
    for path in (*runner_source.files(runner).values(), *_wall_sources(), *_filter_sources(), interpreter.path):
        found = os.stat(path)
        whole.update(f"{path}\0{found.st_size}\0{found.st_mtime_ns}\0{found.st_ino}\n".encode())
    return whole.hexdigest()[:32]


def _copy(source: str, target: str) -> None:
    with open(source, "rb") as reading, open(target, "xb") as writing:
        writing.write(reading.read())


def _open_to_all(folder: str) -> None:
    """Make it readable for the sandbox's user and writable for the gateway's alone, whatever the umask."""
    for path, _, files in os.walk(folder):
        os.chmod(path, 0o755)  # noqa: S103  no secret is in it
        for name in files:
            os.chmod(f"{path}/{name}", 0o644)


def _forget_old(home: str) -> None:
    for entry in list(os.scandir(home)):
        if entry.name.startswith("bundle-") and time.time() - entry.stat().st_mtime > _UNUSED_S:
            with contextlib.suppress(OSError):
                remove_tree(entry.path)
