"""Packages: what a command would install, the tool's own registry, and files that are known by their digest."""

from __future__ import annotations

import json
import os
import threading
from typing import Any

import pytest

from crabpot.errors import CrabpotError
from crabpot.servers import approval, packages, registries, sealing, trees
from crabpot.servers.packages import Package
from crabpot.spec import binds


@pytest.mark.parametrize(
    ("command", "manager", "specs", "program", "args"),
    [
        ("npx -y some-server /a", "npm", ("some-server",), None, ("/a",)),
        ("/usr/bin/npx --yes @scope/server@1.2.3 --flag", "npm", ("@scope/server@1.2.3",), None, ("--flag",)),
        ("npx -p a@^1 -p b -- tool x", "npm", ("a@^1", "b"), "tool", ("x",)),
        ("npx --package=a tool", "npm", ("a",), "tool", ()),
        ("uvx mcp-server-git@2025.1.1", "pypi", ("mcp-server-git==2025.1.1",), None, ()),
        ("uvx mcp-server-git@latest -r x", "pypi", ("mcp-server-git",), None, ("-r", "x")),
        ("uvx --from a[b]>=1 tool", "pypi", ("a[b]>=1",), "tool", ()),
        ("uvx --with b server", "pypi", ("server", "b"), None, ()),
        ("uv tool run server x", "pypi", ("server",), None, ("x",)),
        ("pipx run --spec a==1 tool x", "pypi", ("a==1",), "tool", ("x",)),
    ],
)
def test_a_command_says_what_it_installs(command, manager, specs, program, args):
    assert packages.of(tuple(command.split())) == Package(manager=manager, specs=specs, program=program, args=args)


@pytest.mark.parametrize("command", ["node x", "/opt/x/bin/server npx", "pipx install x", "uv run x", "npxx y"])
def test_other_commands_are_no_packages(command):
    assert packages.of(tuple(command.split())) is None


@pytest.mark.parametrize(
    "command",
    [
        "npx", "npx -y", "npx --registry=https://evil.example x", "npx git+https://evil.example/x", "npx ./x", "npx x/y",
        "npx file:../x", "npx https://evil.example/x.tgz", "npx -p a ../tool", "uvx --index-url https://evil.example x",
        "uvx git+https://evil.example/x", "uvx --python 3.9 x", "uvx x@git+https://evil.example", "uvx .", "uvx --from",
        "pipx run --pip-args=-i=x y", "pipx run https://evil.example/x.py", "uvx -r/etc/passwd", "npx -c id",
    ],
)  # fmt: skip
def test_what_is_not_in_the_registry_by_its_name_is_refused(command):
    with pytest.raises(CrabpotError):
        packages.of(tuple(command.split()))


def test_the_environment_counts_over_the_files_of_pip():
    said = ":env:.index-url='https://mine.example/simple'\nglobal.index-url='https://files.example'\nbad\nx=1\nglobal.cert='/c'"
    assert registries._pip_settings(said) == {"index-url": "https://mine.example/simple", "cert": "/c"}


async def test_a_registry_with_a_password_or_without_a_host_is_refused():
    for url in ("https://u:p@r.example/", "file:///r", "r.example"):
        with pytest.raises(CrabpotError):
            await registries._places([url])
    assert await registries._places(["http://127.0.0.1:8/x"]) == ("127.0.0.1:8",)


@pytest.fixture
def tree(tmp_path):
    root = tmp_path / "root"
    (root / "lib").mkdir(parents=True)
    (root / "lib/a.js").write_text("a")
    (root / "bin").symlink_to("lib/a.js")
    return root


def test_a_copy_has_the_digest_and_any_change_another(tree, tmp_path):
    trees.copy(str(tree), str(tmp_path / "copy"))
    made = trees.digest(str(tmp_path / "copy"))
    assert made == trees.digest(str(tree))
    changes: list[tuple[Any, ...]] = [
        ("write_text", "lib/a.js", "b"),
        ("chmod", "lib/a.js", 0o755),
        ("touch", "lib/b.js"),
        ("mkdir", "empty"),
        ("unlink", "bin"),
        ("symlink_to", "bin", "lib"),
    ]
    seen = {made}
    for how, path, *args in changes:
        getattr(tree / path, how)(*args)
        found = trees.digest(str(tree))
        assert found not in seen
        seen.add(found)


@pytest.mark.parametrize("target", ["/etc/passwd", "../outside", "lib/../../x"])
def test_a_link_that_leads_out_of_a_package_is_refused(tree, tmp_path, target):
    (tree / "out").symlink_to(target)
    with pytest.raises(CrabpotError, match="leads out"):
        trees.copy(str(tree), str(tmp_path / "copy"))


def test_what_is_no_file_is_refused_and_no_right_but_to_execute_is_kept(tree, tmp_path):
    (tree / "lib/a.js").chmod(0o6777)
    trees.copy(str(tree), str(tmp_path / "copy"))
    assert (tmp_path / "copy/lib/a.js").stat().st_mode & 0o7777 == 0o755
    os.mkfifo(tree / "pipe")
    with pytest.raises(CrabpotError, match="no file"):
        trees.copy(str(tree), str(tmp_path / "other"))


def test_a_tree_whose_root_is_a_link_is_refused_and_nothing_of_the_place_it_leads_to_is_copied(tree, tmp_path):
    (tmp_path / "layer").symlink_to(tree)
    for use in (
        lambda: trees.copy(str(tmp_path / "layer"), str(tmp_path / "copy")),
        lambda: trees.digest(str(tmp_path / "layer")),
    ):
        with pytest.raises(CrabpotError, match="no folder"):
            use()
    assert os.listdir(tmp_path / "copy") == []


def test_a_digest_does_not_wait_for_a_fifo(tree):
    os.mkfifo(tree / "pipe")
    assert isinstance(ended(lambda: trees.digest(str(tree))), OSError)


def ended(work):
    """Return what became of work that might wait for ever: its result, or what it raised."""
    found: list[Any] = []

    def run():
        try:
            found.append(work())
        except Exception as error:  # noqa: BLE001  whatever it raises is what it came to
            found.append(error)

    threading.Thread(target=run, daemon=True).start()
    waited = threading.Event()
    for _ in range(200):
        if found:
            break
        waited.wait(0.05)
    assert found, "it is stuck"
    return found[0]


PYPI = Package(manager="pypi", specs=("server",), program=None, args=())
NPM = Package(manager="npm", specs=("server",), program=None, args=())


def installed_by_npm(layer, bin_of=None):
    """Write what npm leaves of a package with one program."""
    (layer / "node_modules/.bin").mkdir(parents=True)
    (layer / "node_modules/.bin/server").write_text("#!")
    (layer / "package-lock.json").write_text(
        json.dumps({"packages": {"": {}, "node_modules/server": {"version": "1", "integrity": "sha512-x"}}})
    )
    if bin_of is not None:
        (layer / "node_modules/server").mkdir()
        (layer / "node_modules/server/package.json").write_text(json.dumps({"bin": bin_of}))


def test_a_package_as_npm_installs_it_is_kept(tmp_path):
    (tmp_path / "work").mkdir()
    installed_by_npm(tmp_path / "work/layer", bin_of="server.js")
    kept = sealing._keep(NPM, str(tmp_path / "work/layer"), str(tmp_path / "state"))
    assert kept["parts"] == {"server": ["1", "sha512-x"]}
    assert kept["program"] == "node_modules/.bin/server"


@pytest.mark.parametrize("what", ["a FIFO", "a link", "a sparse file", "JSON that nests without end"])
def test_a_report_that_the_installing_sandbox_replaced_is_refused_at_once(tmp_path, what):
    work = tmp_path / "work"
    (work / "layer/bin").mkdir(parents=True)
    (work / "layer/bin/server").write_text("#!")
    report = work / "layer.json"
    if what == "a FIFO":
        os.mkfifo(report)
    elif what == "a link":
        (tmp_path / "hosts.json").write_text('{"install": []}')
        report.symlink_to(tmp_path / "hosts.json")
    elif what == "a sparse file":
        report.touch()
        os.truncate(report, 1 << 40)
    else:
        report.write_text("[" * 200_000)
    refused = ended(lambda: sealing._keep(PYPI, str(work / "layer"), str(tmp_path / "state")))
    assert isinstance(refused, CrabpotError)
    assert "is not as pypi installs one" in str(refused)
    assert os.listdir(tmp_path / "state/packages") == []


def test_a_link_that_leads_out_of_a_package_through_another_is_refused_and_never_followed_on_the_host(tmp_path):
    (tmp_path / "work/outside").mkdir(parents=True)
    (tmp_path / "work/outside/package.json").write_text('{"bin": {"a-secret": "x", "of-the-host": "y"}}')
    layer = tmp_path / "work/layer"
    installed_by_npm(layer)
    (layer / "a/b/c/d/e").mkdir(parents=True)
    (layer / "a/b/c/d/e/root").symlink_to("../../../../..")
    # By its text it leads to a/b/work/outside. The copy lies as deep below the test's folder as there are `..` in it.
    (layer / "node_modules/server").symlink_to("../a/b/c/d/e/root/../../../../work/outside")
    refused = ended(lambda: sealing._keep(NPM, str(layer), str(tmp_path / "state")))
    assert isinstance(refused, CrabpotError)
    assert "secret" not in str(refused)
    assert "leads out of it: 'node_modules/server'" in str(refused)


def test_packages_are_the_only_part_of_the_state_that_may_be_shown(tmp_path):
    around = binds.Surroundings(home="/home/x", state=str(tmp_path))
    (tmp_path / "packages/d").mkdir(parents=True)
    (tmp_path / "packages/out").symlink_to(tmp_path)
    assert binds.refuse_program(str(tmp_path / "packages/d"), around) is None
    for path in (
        tmp_path,
        tmp_path / "packages",
        tmp_path / "servers",
        tmp_path / "packages/../servers",
        tmp_path / "packages/out",
    ):
        assert binds.refuse_program(str(path), around) is not None, path
    assert binds.refuse_source(str(tmp_path / "packages/d"), around) is not None


def test_an_operator_sees_which_parts_changed():
    before = {"manager": "npm", "tree": "1", "parts": {"a": ["1.0", "sha512-x"], "b": ["1.0", "sha512-x"]}}
    now = {"manager": "npm", "tree": "2", "parts": {"a": ["1.1", "sha512-y\u202e"], "c": ["2.0", "sha512-z"]}}
    said = "\n".join(approval.parts(now, before))
    assert ("a 1.1 (was 1.0) sha512-y\\u202e" in said, "c 2.0" in said, "gone: b" in said) == (True, True, True)
    assert len(list(approval.parts(now, now))) == 1
    assert list(approval.parts(None, None)) == []
