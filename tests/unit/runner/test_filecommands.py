"""Each command of the allow-list against paths that lead out, in every way that one of its options can name them."""

from __future__ import annotations

import subprocess

import pytest

from crabpot.runner.core.failure import ToolError
from crabpot.runner.socket.allowed import DEFAULT, check_any, check_name
from crabpot.runner.socket.filecommands import RULES
from crabpot.runner.socket.jqcommand import jq
from crabpot.runner.socket.roots import Roots
from crabpot.runner.socket.splitting import split

CHECKS = {**RULES, "jq": jq, "any": check_any}


@pytest.fixture
def ground(tmp_path):
    """Two roots, a secret beside them, and links between all of these."""
    for name in ("work", "bare", "outside", "work/sub", "work/tree"):
        (tmp_path / name).mkdir()
    (tmp_path / "outside/secret").write_text("secret")
    (tmp_path / "work/plain").write_text("plain")
    (tmp_path / "work/link").symlink_to(tmp_path / "outside/secret")
    (tmp_path / "work/up").symlink_to("..")
    (tmp_path / "work/out").symlink_to(tmp_path / "outside")
    (tmp_path / "work/dangling").symlink_to(tmp_path / "outside/not-yet")
    (tmp_path / "work/other").symlink_to(tmp_path / "bare")
    (tmp_path / "work/sub/plain").symlink_to(tmp_path / "outside/secret")
    (tmp_path / "work/loop").symlink_to("loop")
    return tmp_path


def check(ground, command, args):
    folder = str(ground / "work").encode()
    words = [word.replace("{out}", str(ground / "outside")).replace("{in}", str(ground / "work")) for word in args]
    roots = Roots([folder, str(ground / "bare").encode()])
    return CHECKS[command]([word.encode() for word in words], folder, roots)


OUTSIDE = [
    ("cat", ["/etc/passwd"]),
    ("cat", ["plain", "/etc/passwd"]),
    ("cat", ["-n", "--", "/etc/passwd"]),
    ("cat", ["../outside/secret"]),
    ("cat", ["sub/../../outside/secret"]),
    ("cat", ["link"]),
    ("cat", ["up/outside/secret"]),
    ("cat", ["out/secret"]),
    ("cat", ["/proc/self/environ"]),
    ("cat", ["/proc/self/root/etc/passwd"]),
    ("cat", ["/dev/stdin"]),
    ("cat", ["{in}/../outside/secret"]),
    ("ls", ["/"]),
    ("ls", [".."]),
    ("ls", ["-la", "out"]),
    ("ls", ["out/"]),
    ("ls", ["-T", "4", "/etc"]),
    ("ls", ["-w80", "/etc"]),
    ("ls", ["-I", "x", "/etc"]),
    ("mkdir", ["/tmp/made-by-attack"]),
    ("mkdir", ["-p", "out/deep/er"]),
    ("mkdir", ["-m", "777", "out/x"]),
    ("mkdir", ["-pm777", "../x"]),
    ("mkdir", ["dangling"]),
    ("cp", ["/etc/passwd", "here"]),
    ("cp", ["plain", "/tmp/x"]),
    ("cp", ["plain", "link"]),
    ("cp", ["plain", "dangling"]),
    ("cp", ["plain", "out"]),
    ("cp", ["plain", "sub"]),
    ("cp", ["plain", "sub/"]),
    ("cp", ["link", "here"]),
    ("cp", ["-t", "/tmp", "plain"]),
    ("cp", ["-t/tmp", "plain"]),
    ("cp", ["-vt", "out", "plain"]),
    ("cp", ["--target-directory=/tmp", "plain"]),
    ("cp", ["--target-directory", "out", "plain"]),
    ("cp", ["-t", "sub", "plain"]),
    ("cp", ["-s", "/etc/passwd", "here"]),
    ("cp", ["-a", "out", "here"]),
    ("mv", ["/etc/hostname", "here"]),
    ("mv", ["plain", "out"]),
    ("mv", ["plain", "out/"]),
    ("mv", ["plain", "../moved"]),
    ("mv", ["-t", "out", "plain"]),
    ("mv", ["out/secret", "here"]),
    ("mv", ["out/", "here"]),
    ("rm", ["/etc/passwd"]),
    ("rm", ["-rf", "/"]),
    ("rm", ["-rf", ".."]),
    ("rm", ["-rf", "out/"]),
    ("rm", ["-rf", "out/."]),
    ("rm", ["out/secret"]),
    ("diff", ["plain", "/etc/passwd"]),
    ("diff", ["--to-file=/etc/passwd", "plain"]),
    ("diff", ["--to-file", "/etc/passwd", "plain"]),
    ("diff", ["--from-file=link", "plain"]),
    ("diff", ["-X", "/etc/passwd", "sub", "tree"]),
    ("diff", ["-X/etc/passwd", "sub", "tree"]),
    ("diff", ["-uX", "link", "sub", "tree"]),
    ("diff", ["--exclude-from=/etc/passwd", "sub", "tree"]),
    ("jq", [".", "/etc/passwd"]),
    ("jq", [".", "--", "/etc/passwd"]),
    ("jq", ["-f", "/etc/passwd"]),
    ("jq", ["-rf", "link"]),
    ("jq", [".", "-f", "link"]),
    ("jq", ["--from-file", "link"]),
    ("jq", ["-n", "--rawfile", "x", "/etc/passwd", "$x"]),
    ("jq", ["-n", "--slurpfile", "x", "link", "$x"]),
    ("jq", ["-n", "--argfile", "x", "../outside/secret", "$x"]),
    ("jq", ["--arg", "a", "b", ".", "link"]),
    ("jq", ["--indent", "2", ".", "link"]),
    ("any", ["--output=/etc/x"]),
    ("any", ["-o/etc/x"]),
    ("any", ["-o", "/etc/x"]),
    ("any", ["-C../.."]),
    ("any", ["@/etc/passwd"]),
    ("any", ["-vlink"]),
]


@pytest.mark.parametrize(("command", "args"), OUTSIDE)
def test_a_path_that_leads_out_is_refused(ground, command, args):
    with pytest.raises(ToolError) as caught:
        check(ground, command, args)
    assert caught.value.code == "outside"


REFUSED = [
    ("cp", ["-L", "sub", "x"]),
    ("cp", ["-rL", "sub", "x"]),
    ("cp", ["--dereference", "sub", "x"]),
    ("cp", ["--derefer", "sub", "x"]),
    ("cp", ["--target=/tmp", "plain"]),
    ("cp", ["-b", "--suffix=/../../x", "plain", "y"]),
    ("ls", ["-lL"]),
    ("ls", ["-RL"]),
    ("rm", ["--no-preserve-root", "-rf", "x"]),
    ("rm", ["-rf", "{in}"]),
    ("rm", ["-rf", "."]),
    ("rm", ["-rf", "sub/.."]),
    ("mv", ["{in}", "elsewhere"]),
    ("diff", ["-l", "plain", "plain"]),
    ("diff", ["--paginate", "plain", "plain"]),
    ("jq", ["-L", "/etc", "."]),
    ("jq", ["-L/etc", "."]),
    ("jq", ["--library-path", "/etc", "."]),
    ("jq", ["--run-tests"]),
    ("jq", ["-n", 'import "a" as a; a::b']),
    ("jq", ["-n", '  include "x" {search: "/etc"}; .']),
    ("jq", ["-n", '# a comment\nimport "/etc/x" as $d; $d']),
    ("jq", ["-n", '# a comment \\\nimport "/etc/x" as $d; $d']),
    ("jq", ["-n", '# \\\n.\nimport "/etc/x" as $d; $d']),
    ("jq", ["-n", 'module {}; import "x" as x; 1']),
    ("cat", ["--unknown"]),
]


@pytest.mark.parametrize(("command", "args"), REFUSED)
def test_an_option_that_would_go_around_the_roots_is_refused(ground, command, args):
    with pytest.raises(ToolError) as caught:
        check(ground, command, args)
    assert caught.value.code in ("permission_denied", "outside")


HONEST = [
    ("cat", ["plain"]),
    ("cat", ["-"]),
    ("cat", []),
    ("cat", ["sub/../plain"]),
    ("cat", ["{in}/plain"]),
    ("cat", ["docker-compose..yml"]),
    ("cat", ["sudo.txt", "etc/root/var"]),
    ("cat", ["loop"]),
    ("ls", ["-la", "--color=never", "sub"]),
    ("ls", ["other"]),
    ("mkdir", ["-p", "docker/etc/..data"]),
    ("mkdir", ["other/hooks"]),
    ("cp", ["plain", "copy"]),
    ("cp", ["plain", "tree"]),
    ("cp", ["-r", "tree", "copy"]),
    ("mv", ["plain", "tree/"]),
    ("mv", ["link", "renamed-link"]),
    ("rm", ["link"]),
    ("rm", ["-f", "out", "dangling", "up"]),
    ("rm", ["other"]),
    ("rm", ["-rf", "tree", "not-there"]),
    ("diff", ["-u", "plain", "tree/x"]),
    ("diff", ["--label", "/etc/passwd", "plain", "plain"]),
    ("diff", ["-U", "10", "plain", "-"]),
    ("diff", ["-5", "plain", "plain"]),
    ("jq", [".import", "plain"]),
    ("jq", ['.a | select(. == "import")']),
    ("jq", ["{\n include: .x, module: 1}"]),
    ("jq", ["-n", "--arg", "path", "/etc/passwd", "$path"]),
    ("jq", ["-n", "$ARGS", "--args", "/etc/passwd", "../.."]),
    ("jq", ['test("/etc/")']),
    ("jq", ["-r", "--indent", "2", ".x", "plain"]),
    ("any", ["-n", "x", "sub/plain..txt"]),
]


@pytest.mark.parametrize(("command", "args"), HONEST)
def test_an_honest_command_is_let_through(ground, command, args):
    check(ground, command, args)


def test_a_recursive_copy_does_not_write_through_links_that_lie_deeper(ground):
    (ground / "work/tree/f").write_text("new")
    (ground / "work/target/tree").mkdir(parents=True)
    (ground / "work/target/tree/f").symlink_to(ground / "outside/secret")
    args = check(ground, "cp", ["-r", "tree", "target"])
    subprocess.run([b"cp", *args], cwd=ground / "work", check=True)
    assert (ground / "outside/secret").read_text() == "secret"
    assert (ground / "work/target/tree/f").read_text() == "new"


@pytest.mark.parametrize(
    "operands", [["-r", "sub", "tree"], ["sub", "tree"], ["sub", "tree/plain"], ["tree/plain", "sub"]]
)
def test_diff_does_not_look_through_links_inside_folders(ground, operands):
    (ground / "work/tree/plain").write_text("x")
    args = check(ground, "diff", operands)
    shown = subprocess.run([b"diff", *args], cwd=ground / "work", capture_output=True, check=False)
    assert b"secret" not in shown.stdout


def test_a_program_of_jq_in_a_file_may_not_load_modules_either(ground):
    (ground / "work/p.jq").write_text('import "x" as $x; .')
    with pytest.raises(ToolError):
        check(ground, "jq", ["-f", "p.jq"])
    (ground / "work/p.jq").write_text(".import")
    check(ground, "jq", ["-f", "p.jq", "plain"])


def test_the_usual_names_may_be_in_the_list_and_those_that_change_privileges_never():
    assert all(check_name(name) is None for name in DEFAULT)
    for name in ("sudo", "docker", "su", "nsenter", "../git", "a/b", "", "-x", "a b"):
        assert check_name(name)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("ls -la", ["ls", "-la"]),
        ("git commit -m 'see ../.. and /etc; docker'", ["git", "commit", "-m", "see ../.. and /etc; docker"]),
        (r"""cat "a b" c\ d "\"" \'""", ["cat", "a b", "c d", '"', "'"]),
        ('cat "a\\"b"', ["cat", 'a"b']),
        ("cat ''", ["cat", ""]),
        ("cat a''b", ["cat", "ab"]),
        ("cat a#b", ["cat", "a#b"]),
        ("cat #b", None),
        ("", None),
        ("a && b", None),
        ("a\nb", None),
        ("cat 'x", None),
        ("cat x\\", None),
    ],
)
def test_words_are_split_as_a_shell_splits_them_or_not_at_all(text, words):
    if words is None:
        with pytest.raises(ToolError):
            split(text)
    else:
        assert split(text) == words
