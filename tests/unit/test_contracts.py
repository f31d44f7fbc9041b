"""What import-linter cannot hold: the runner imports only itself and a list of standard modules, and every room has its sign."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import crabpot
from crabpot import runner

PACKAGE = Path(crabpot.__file__).parent
ROOT = Path(runner.__file__).parent
MODULES = sorted(path.relative_to(ROOT) for path in ROOT.rglob("*.py"))

STANDARD = frozenset(
    "__future__ _bisect _codecs _ctypes _json _signal _socket _stat argparse binascii collections contextlib errno fcntl "
    "hashlib json os posix re resource select shutil signal socket stat struct sys termios time typing warnings".split()
)
# Ways to a module that no import statement shows.
HIDDEN = frozenset("__import__ exec eval compile __builtins__ __loader__ __spec__ modules import_module".split())
# It names itself by hand, where it is started as a file.
OWN_NAME = {"__main__.py": {"modules", "__spec__"}}


def wrong(source: str, path: Path) -> list[str]:
    """List the imports of one module of the runner that would not be there where the runner stands alone."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names if alias.name.partition(".")[0] not in STANDARD]
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            found += [] if str(node.module).partition(".")[0] in STANDARD else [str(node.module)]
        elif isinstance(node, ast.ImportFrom):
            found += [] if node.level <= len(path.parts) else ["." * node.level + str(node.module)]
        elif isinstance(node, ast.Name | ast.Attribute):
            # re.compile and the like make no module.
            name = node.id if isinstance(node, ast.Name) else node.attr
            plain = name == "compile" and isinstance(node, ast.Attribute)
            hidden = name in HIDDEN - OWN_NAME.get(str(path), set()) and not plain
            found += [name] if hidden else []
    return found


@pytest.mark.parametrize("path", MODULES, ids=str)
def test_a_module_of_the_runner_imports_the_runner_and_the_standard_library_alone(path):
    assert wrong((ROOT / path).read_text(), path) == []


@pytest.mark.parametrize(
    "dodge",
    [
        "import crabpot",
        "import crabpot.wording as wording",
        "from crabpot import wording",
        "from ... import wording",
        "from ...wording import counted",
        "def late():\n    from crabpot import wording",
        "TYPE_CHECKING = False\nif TYPE_CHECKING:\n    from crabpot.model import Place",
        "import importlib\nimportlib.import_module('crabpot.wording')",
        "from importlib import import_module as load\nload('crabpot.wording')",
        "import runpy",
        "__import__('crabpot.wording')",
        "exec('import crabpot.wording')",
        "eval(compile('1', '', 'eval'))",
        "import sys\nsys.modules['crabpot.wording']",
        "import pydantic",
    ],
)
def test_no_way_around_is_taken_for_an_honest_import(dodge):
    assert wrong(dodge, Path("core/budget.py"))


def loads_by_name(source: str) -> set[str]:
    """Return the ways to a module by its name as text that a module uses: import-linter does not see where they lead."""
    tree = list(ast.walk(ast.parse(source)))
    names = {node.id for node in tree if isinstance(node, ast.Name)}
    names |= {node.attr for node in tree if isinstance(node, ast.Attribute)}
    names |= {alias.name for node in tree if isinstance(node, ast.ImportFrom) for alias in node.names}
    return names & {"__import__", "import_module", "runpy"}


def test_only_the_doors_at_the_top_load_a_module_by_its_name():
    above = ("__init__.py", "doors/cli/main.py", "doors/cli/commands/bench.py")
    sources = {str(path.relative_to(PACKAGE)): path.read_text() for path in PACKAGE.rglob("*.py")}
    assert {path for path, source in sources.items() if loads_by_name(source)} == set(above)
    assert loads_by_name("from importlib import import_module as load\nload('crabpot.gateway')")


ALONE = """
import importlib, pkgutil, sys
sys.path.insert(0, sys.argv[1])
import alone
for found in pkgutil.walk_packages(alone.__path__, "alone."):
    if not found.name.endswith("__main__"):
        importlib.import_module(found.name)
print(sorted(name for name in sys.modules if name.partition(".")[0] == "crabpot"))
print(sum(name.startswith("alone.") for name in sys.modules))
"""


def test_every_module_of_the_runner_imports_where_nothing_else_of_ours_is(tmp_path):
    shutil.copytree(ROOT, tmp_path / "alone", ignore=shutil.ignore_patterns("__pycache__"))
    # -S: without the installed packages, of which this one is one.
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-B", "-c", ALONE, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.stderr == ""
    known, count = done.stdout.splitlines()
    packages = [path for path in MODULES if path.name == "__init__.py" and path.parent != Path()]
    modules = [path for path in MODULES if path.name not in ("__init__.py", "__main__.py")]
    assert (known, int(count)) == ("[]", len(packages) + len(modules))


PURE = """
import importlib, pkgutil, sys
for name in sys.argv[1].split():
    made = importlib.import_module(name)
    for found in pkgutil.walk_packages(getattr(made, "__path__", ()), name + "."):
        importlib.import_module(found.name)
print([name for name in sys.argv[2].split() if name in sys.modules])
"""


@pytest.mark.parametrize(
    "name",
    [
        "crabpot.decide",
        "crabpot.spec",
        *sorted(
            ".".join(("crabpot", *path.relative_to(PACKAGE).with_suffix("").parts))
            for path in PACKAGE.rglob("backends/*/render.py")
        ),
    ],
)
def test_decisions_and_descriptions_load_nothing_that_starts_or_connects(name):
    forbidden = "subprocess _posixsubprocess socket _socket ssl asyncio sqlite3 multiprocessing"
    done = subprocess.run(
        [sys.executable, "-I", "-c", PURE, name, forbidden],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.stdout, done.stderr) == ("[]\n", "")


def pure_modules() -> list[Path]:
    """Return the modules that the contract in pyproject.toml names, and those below them."""
    with (PACKAGE.parents[1] / "pyproject.toml").open("rb") as file:
        contracts = tomllib.load(file)["tool"]["importlinter"]["contracts"]
    (names,) = (contract["source_modules"] for contract in contracts if "forbidden_modules" in contract)
    places = [PACKAGE.joinpath(*name.split(".")[1:]) for name in names]
    return sorted(
        path for place in places for path in (place.rglob("*.py") if place.is_dir() else [place.with_suffix(".py")])
    )


def starts(source: str) -> set[str]:
    """Return what a module uses to start a process without importing anything that a contract forbids."""
    tree = list(ast.walk(ast.parse(source)))
    names = {node.attr for node in tree if isinstance(node, ast.Attribute)}
    names |= {alias.name for node in tree if isinstance(node, ast.ImportFrom | ast.Import) for alias in node.names}
    return {name for name in names if STARTING.fullmatch(name)}


STARTING = re.compile("system|popen|forkpty|fork|startfile|(posix_)?spawn.*|exec[lv].*|_?ctypes|posix|pty")


@pytest.mark.parametrize("path", pure_modules(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_decisions_and_descriptions_start_nothing_by_os_either(path):
    assert starts(path.read_text()) == set()


@pytest.mark.parametrize(
    "dodge", ["import os\nos.system('x')", "from os import fork", "import os\nos.execvp('x', [])", "import pty"]
)
def test_a_start_by_os_is_seen(dodge):
    assert starts(dodge)


ROOMS = sorted(path.parent.relative_to(PACKAGE) for path in PACKAGE.rglob("__init__.py") if path.parent != PACKAGE)


@pytest.mark.parametrize("room", ROOMS, ids=str)
def test_a_room_says_what_it_owns_what_it_may_import_and_what_must_never_enter(room):
    said = ast.get_docstring(ast.parse((PACKAGE / room / "__init__.py").read_text()))
    assert said is not None
    owns, empty, imports, never = said.splitlines()
    assert owns.endswith(".")
    assert empty == ""
    assert imports.startswith("May import: ")
    assert never.startswith("Must never enter: ")


# docs/glossary.md says what each of them is called now.
RETIRED = frozenset(
    "keeping standstill leaving departure sighting kit ground narrow presence showing house living shape remembered "
    "crowding lint conversation".split()
)


def named(tree: ast.AST) -> set[str]:
    """Return the names that a module gives to what it defines, word by word."""
    defined = [
        node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    defined += [node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)]
    defined += [node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]
    return {word.lower() for name in defined for word in re.findall("[A-Z]?[a-z]+|[A-Z]+", name)}


def test_nothing_has_a_name_that_the_glossary_retired():
    sources = {str(path.relative_to(PACKAGE)): path for path in PACKAGE.rglob("*.py")}
    # A claim is a sentence, and uses words as sentences do.
    modules = {name: path for name, path in sources.items() if not name.startswith("proof/")}
    assert {Path(name).stem for name in modules} & RETIRED == set()
    found = {name: named(ast.parse(path.read_text())) & RETIRED for name, path in modules.items()}
    assert {name: words for name, words in found.items() if words} == {}


def test_no_python_is_started_with_the_current_folder_on_its_module_path():
    """An agent may own that folder: a module of the same name in it would run as the operator."""
    started = 0
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.List | ast.Tuple) and "sys.executable" in ast.unparse(node):
                words = {one.value for one in ast.walk(node) if isinstance(one, ast.Constant)}
                started += "-m" in words
                assert "-m" not in words or words & {"-P", "-I"}, f"{path}: {ast.unparse(node)}"
    assert started
