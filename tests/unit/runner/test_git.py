"""git for a client of the socket: honest work works, and neither arguments nor the repository make it run a program."""

from __future__ import annotations

import os
import stat
import subprocess

import pytest

from crabpot.runner.core.failure import ToolError
from crabpot.runner.socket import gitargs, gitconfig
from crabpot.runner.socket.roots import Roots
from tests.unit.runner.listener import Listener


@pytest.fixture(scope="module")
def listener(tmp_path_factory):
    with Listener(tmp_path_factory.mktemp("git")) as started:
        yield started


@pytest.fixture
def repo(listener, request):
    """A repository with one commit, made through the runner, in a folder of the test's own."""
    folder = listener.root / f"repo{abs(hash(request.node.nodeid))}"
    folder.mkdir()
    ok(listener.git("init", "-q", cwd=str(folder)))
    (folder / "a.txt").write_text("one\n")
    ok(listener.git("add", ".", cwd=str(folder)))
    ok(listener.git("commit", "-q", "-m", "first", cwd=str(folder)))
    return folder


def ok(answer):
    assert answer["success"], answer
    return answer["stdout"]


def test_a_days_honest_work(listener, repo):
    git = lambda *args: ok(listener.git(*args, cwd=str(repo)))  # noqa: E731
    git("config", "user.name", "Somebody")
    (repo / "docker-compose..yml").write_text("x")
    git("add", "docker-compose..yml")
    git("commit", "-am", "see ../../etc/passwd, /etc and /root: sudo docker..")
    assert "see ../../etc/passwd" in git("log", "--format=%s %an", "HEAD~1..HEAD")
    assert "Somebody" in git("log", "-1")
    git("switch", "-qc", "work")
    (repo / "a.txt").write_text("two\n")
    assert "+two" in git("diff")
    git("stash")
    git("stash", "pop")
    git("commit", "-qm", "two", "a.txt")
    git("checkout", "-q", "-")
    git("merge", "-q", "--no-edit", "work")
    git("tag", "-a", "v1", "-m", "/a/tag")
    assert "v1" in git("tag")
    assert "a.txt" in git("grep", "-n", "two")
    git("rm", "-q", "a.txt")
    git("reset", "-q", "--hard")
    assert git("status", "--porcelain") == ""


def test_push_and_fetch_between_the_two_roots(listener, repo):
    bare = str(listener.bare / f"{repo.name}.git")
    ok(listener.git("init", "-q", "--bare", bare))
    ok(listener.git("remote", "add", "origin", bare, cwd=str(repo)))
    ok(listener.git("push", "-q", "origin", "HEAD:refs/heads/main", cwd=str(repo)))
    ok(listener.git("fetch", "-q", "origin", cwd=str(repo)))
    assert "refs/heads/main" in ok(listener.git("ls-remote", "origin", cwd=str(repo)))
    ok(listener.git("clone", "-q", bare, str(repo / "again")))
    assert (repo / "again" / ".git").is_dir()


# --- arguments --------------------------------------------------------------------------------------------------------

HOSTILE = [
    ["-c", "core.pager=id", "log"],
    ["-ccore.pager=id", "log"],
    ["--config-env=core.pager=X", "log"],
    ["--exec-path=/tmp", "status"],
    ["-p", "log"],
    ["--paginate", "log"],
    ["-C", "/etc", "status"],
    ["-C", "{root}/out", "status"],
    ["--git-dir=/etc", "log"],
    ["--git-dir", "/etc", "log"],
    ["--work-tree=/", "status"],
    ["--super-prefix=x", "status"],
    ["clone", "--upload-pack=id", ".", "x"],
    ["clone", "--upload-pa=id", ".", "x"],
    ["clone", "-u", "id", ".", "x"],
    ["clone", "-uid", ".", "x"],
    ["clone", "-c", "core.fsmonitor=id", ".", "x"],
    ["clone", "--config", "core.fsmonitor=id", ".", "x"],
    ["clone", "--template=t", ".", "x"],
    ["clone", "--templ", "t", ".", "x"],
    ["clone", "--recurse-submodules", ".", "x"],
    ["clone", "ext::sh -c id", "x"],
    ["clone", "/etc", "x"],
    ["clone", "file:///etc", "x"],
    ["clone", ".", "/tmp/x"],
    ["clone", "--reference=/etc", ".", "x"],
    ["clone", "--separate-git-dir=/tmp/x", ".", "x"],
    ["ls-remote", "-u", "id", "."],
    ["ls-remote", "--exec=id", "."],
    ["fetch", "--upload-pack", "id", "."],
    ["fetch", "ext::id"],
    ["pull", "--upload-p=id"],
    ["push", "--receive-pack=id", "."],
    ["push", "--exec=id", "."],
    ["push", "ext::id"],
    ["push", "out"],
    ["remote", "add", "x", "ext::sh -c id"],
    ["remote", "add", "x", "/etc"],
    ["rebase", "-x", "id", "HEAD"],
    ["rebase", "--exec", "id", "HEAD"],
    ["rebase", "--ex=id", "HEAD"],
    ["rebase", "-i", "HEAD~1"],
    ["rebase", "-s", "x/evil", "HEAD~1"],
    ["rebase", "-qsx/evil", "HEAD~1"],
    ["rebase", "--strategy=x/evil", "HEAD~1"],
    ["cherry-pick", "--strategy", "x/evil", "HEAD"],
    ["revert", "--strateg=x/evil", "HEAD"],
    ["pull", "-s", "x/evil"],
    ["merge", "--strategy="],
    ["grep", "-O", "x"],
    ["grep", "-Oid", "x"],
    ["grep", "--open-files-in-pager=id", "x"],
    ["grep", "--no-index", "x", "/etc/passwd"],
    ["grep", "-e", "x", "--no-index", "/etc/passwd"],
    ["grep", "-ex", "/etc/passwd"],
    ["grep", "-f", "/etc/passwd"],
    ["grep", "-nf/etc/passwd"],
    ["diff", "--ext-diff"],
    ["diff", "--no-index", "a.txt", "/etc/passwd"],
    ["diff", "--output=/tmp/x"],
    ["diff", "--output", "/tmp/x"],
    ["diff", "-O/etc/passwd"],
    ["log", "--output=/tmp/x"],
    ["log", "-m", "--output=/tmp/x"],
    ["log", "--textconv", "-p"],
    ["show", "--output=out/x"],
    ["hash-object", "/etc/passwd"],
    ["hash-object", "--stdin-paths"],
    ["hash-object", "-w", "link"],
    ["commit", "-F", "/etc/passwd"],
    ["commit", "-F/etc/passwd"],
    ["commit", "-aF/etc/passwd"],
    ["commit", "-aF../../../etc/passwd"],
    ["commit", "-aFlink"],
    ["commit", "--file=/etc/passwd"],
    ["commit", "-t", "/etc/passwd"],
    ["commit", "--template=/etc/passwd"],
    ["commit", "-S"],
    ["apply", "/etc/passwd"],
    ["apply", "--unsafe-paths", "p"],
    ["apply", "--unsafe-path", "p"],
    ["am", "/etc/passwd"],
    ["blame", "--contents", "/etc/passwd", "a.txt"],
    ["config", "--file", "/etc/passwd", "--list"],
    ["config", "-f/etc/passwd", "--list"],
    ["config", "--global", "a.b", "c"],
    ["config", "--system", "a.b", "c"],
    ["config", "core.hooksPath", "/etc"],
    ["init", "/tmp/x"],
    ["init", "--template=t"],
    ["init", "--separate-git-dir=/tmp/x"],
    ["worktree", "add", "/tmp/x"],
    ["format-patch", "-o", "/tmp", "HEAD~1"],
    ["format-patch", "-o/tmp", "HEAD~1"],
    ["add", "--pathspec-from-file=/etc/passwd"],
    ["log", "--help"],
    ["help", "log"],
    ["submodule", "update"],
    ["filter-branch"],
    ["difftool"],
    ["mergetool"],
    ["bisect", "run", "id"],
    ["daemon"],
    ["upload-pack", "."],
    ["credential", "fill"],
    ["hook", "run", "x"],
    ["maintenance", "start"],
    ["an-alias"],
    ["!id"],
    ["--help"],
]


@pytest.mark.parametrize("args", HOSTILE, ids=" ".join)
def test_hostile_arguments_are_refused(tmp_path, args):
    folder = tmp_path / "work"
    folder.mkdir()
    (tmp_path / "outside").mkdir()
    (folder / "out").symlink_to(tmp_path / "outside")
    (folder / "link").symlink_to("/etc/passwd")
    words = [word.replace("{root}", str(folder)).encode() for word in args]
    with pytest.raises(ToolError) as caught:
        gitargs.check(words, str(folder).encode(), Roots([str(folder).encode()]))
    assert caught.value.code in ("permission_denied", "outside")


HONEST = [
    ["status"],
    ["commit", "-m", "/etc/passwd ../.."],
    ["commit", "-am", "../../.."],
    ["commit", "-m../../.."],
    ["commit", "--message=/etc"],
    ["commit", "--message", "/etc"],
    ["log", "main..HEAD", "--", "a/b"],
    ["log", "..main"],
    ["log", "--grep=/etc", "-S/etc", "-S", "/etc"],
    ["log", "-n", "5", "-p", "--stat", "--text"],
    ["show", "HEAD:docker/etc"],
    ["diff", "HEAD~1...HEAD"],
    ["grep", "/api/v1"],
    ["grep", "-n", "-e", "/api", "src"],
    ["push", "-u", "origin", "main"],
    ["add", "-u"],
    ["checkout", "-b", "feature/..x"],
    ["rebase", "--continue"],
    ["merge", "--edit", "-m", "/x", "topic"],
    ["-C", "sub", "status"],
    ["--no-pager", "log"],
    ["update-ref", "--stdin"],
    ["remote", "add", "o", "https://example.com/x.git"],
    ["version"],
]


@pytest.mark.parametrize("args", HONEST, ids=" ".join)
def test_honest_arguments_are_let_through(tmp_path, args):
    (tmp_path / "sub").mkdir()
    gitargs.check([word.encode() for word in args], str(tmp_path).encode(), Roots([str(tmp_path).encode()]))


# --- what lies in the repository --------------------------------------------------------------------------------------


@pytest.fixture
def trap(tmp_path):
    """A program that leaves a trace when somebody runs it."""
    program = tmp_path / "trap.sh"
    program.write_text(f'#!/bin/sh\ntouch "{tmp_path}/sprung"\ncat 2>/dev/null\nexit 0\n')
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return Trap(str(program), tmp_path / "sprung")


class Trap:
    def __init__(self, program, trace):
        self.program = program
        self._trace = trace

    @property
    def sprung(self):
        return self._trace.exists()


CONFIGURED = {
    "fsmonitor": ("[core]\nfsmonitor = {trap}\n", [["status"], ["add", "."], ["diff"]]),
    "hooks path": ("[core]\nhooksPath = {hooks}\n", [["commit", "--allow-empty", "-m", "x"], ["checkout", "-b", "y"]]),
    "pager": ("[core]\npager = {trap}\n[pager]\nlog = {trap}\n", [["log"]]),
    "editor": (
        "[core]\neditor = {trap}\n[sequence]\neditor = {trap}\n",
        [["commit", "--allow-empty"], ["tag", "-a", "x"]],
    ),
    "external diff": ("[diff]\nexternal = {trap}\n", [["diff"], ["log", "-p"], ["show"], ["diff-files", "-p"]]),
    "diff driver": (
        '[diff "d"]\ncommand = {trap}\ntextconv = {trap}\n',
        [["diff"], ["log", "-p"], ["blame", "a.txt"], ["grep", "x"]],
    ),
    "filter": (
        '[filter "d"]\nclean = {trap}\nsmudge = {trap}\nprocess = {trap}\nrequired = true\n',
        [["status"], ["add", "."], ["checkout", "-f", "."], ["stash"]],
    ),
    "alias": ("[alias]\nstatus = !{trap}\nxx = !{trap}\n", [["status"], ["xx"]]),
    "signing": (
        "[commit]\ngpgSign = true\n[gpg]\nprogram = {trap}\n[log]\nshowSignature = true\n",
        [["commit", "--allow-empty", "-m", "x"], ["tag", "-s", "x", "-m", "y"], ["log"]],
    ),
    "upload pack": (
        '[remote "o"]\nurl = .\nuploadpack = {trap}\nreceivepack = {trap}\n',
        [
            ["fetch", "o"],
            ["pull", "o"],
            ["push", "o", "HEAD:x"],
            ["ls-remote", "o"],
            ["fetch", "--all"],
            ["remote", "update"],
            ["remote", "show", "o"],
        ],
    ),
    "ssh": (
        '[core]\nsshCommand = {trap}\ngitProxy = {trap}\n[remote "o"]\nurl = ssh://example.invalid/x\n',
        [["fetch", "o"], ["push", "o"]],
    ),
    "helper": ('[remote "o"]\nurl = ext::{trap}\n[protocol "ext"]\nallow = always\n', [["fetch", "o"], ["push", "o"]]),
    "vcs": ('[remote "o"]\nurl = x\nvcs = ext\n', [["fetch", "o"]]),
    "credential": (
        '[credential]\nhelper = !{trap}\n[core]\naskPass = {trap}\n[remote "o"]\nurl = http://127.0.0.1:1/x\n',
        [["fetch", "o"]],
    ),
    "hook table": ('[hook "h"]\ncommand = {trap}\nevent = pre-commit\n', [["commit", "--allow-empty", "-m", "x"]]),
    "trailer": (
        '[trailer "x"]\ncmd = {trap}\ncommand = {trap}\n',
        [["commit", "--allow-empty", "-m", "x", "--trailer", "x=y"]],
    ),
    "alternates": ("[core]\nalternateRefsCommand = {trap}\n", [["fetch", "."]]),
    "gc": ("[gc]\nauto = 1\nrecentObjectsHook = {trap}\n", [["gc"], ["commit", "--allow-empty", "-m", "x"]]),
    "included": ("[include]\npath = more\n", [["status"]]),
}


@pytest.mark.parametrize("name", CONFIGURED)
def test_nothing_that_the_repositorys_configuration_names_is_run(listener, repo, trap, name):
    text, calls = CONFIGURED[name]
    hooks = repo / "hooks"
    hooks.mkdir()
    for hook in ("pre-commit", "post-commit", "post-checkout", "reference-transaction", "commit-msg", "pre-push"):
        for folder in (hooks, repo / ".git" / "hooks"):
            (folder / hook).write_text(f"#!/bin/sh\nexec {trap.program}\n")
            (folder / hook).chmod(0o755)
    with (repo / ".git/config").open("a") as config:
        config.write(text.format(trap=trap.program, hooks=hooks))
    (repo / ".git/more").write_text(f"[core]\nfsmonitor = {trap.program}\n")
    (repo / ".gitattributes").write_text("* filter=d diff=d\n")
    for args in calls:
        (repo / "a.txt").write_text(f"changed {args}\n")
        listener.git(*args, cwd=str(repo))
        assert not trap.sprung, args


def test_the_traps_do_spring_where_nothing_is_done_about_them(repo, trap):
    with (repo / ".git/config").open("a") as config:
        config.write(f"[core]\nfsmonitor = {trap.program}\n")
    subprocess.run(["git", "-c", "safe.directory=*", "status"], cwd=repo, check=False, capture_output=True)
    assert trap.sprung


def test_a_filters_files_are_still_checked_in_and_out(listener, repo, trap):
    with (repo / ".git/config").open("a") as config:
        config.write(f'[filter "d"]\nclean = {trap.program}\nsmudge = {trap.program}\nrequired = true\n')
    (repo / ".gitattributes").write_text("*.txt filter=d\n")
    (repo / "b.txt").write_text("kept\n")
    ok(listener.git("add", ".", cwd=str(repo)))
    ok(listener.git("commit", "-qm", "b", cwd=str(repo)))
    (repo / "b.txt").unlink()
    ok(listener.git("checkout", ".", cwd=str(repo)))
    assert (repo / "b.txt").read_text() == "kept\n"


def test_a_merge_driver_of_the_repository_is_not_run_and_merges_still_work(listener, repo, trap):
    with (repo / ".git/config").open("a") as config:
        config.write(f'[merge "d"]\ndriver = {trap.program} %A\n')
    (repo / ".gitattributes").write_text("*.txt merge=d\n")
    git = lambda *args: listener.git(*args, cwd=str(repo))  # noqa: E731
    (repo / "a.txt").write_text("one\ntwo\nthree\nfour\nfive\n")
    ok(git("add", "."))
    ok(git("commit", "-qm", "base"))
    ok(git("switch", "-qc", "side"))
    (repo / "a.txt").write_text("ONE\ntwo\nthree\nfour\nfive\n")
    ok(git("commit", "-qam", "side"))
    ok(git("switch", "-q", "-"))
    (repo / "a.txt").write_text("one\ntwo\nthree\nfour\nFIVE\n")
    ok(git("commit", "-qam", "main"))
    ok(git("merge", "-q", "--no-edit", "side"))
    assert (repo / "a.txt").read_text() == "ONE\ntwo\nthree\nfour\nFIVE\n"
    assert not trap.sprung


def test_the_hooks_of_the_repository_that_is_pushed_to_are_not_run(listener, repo, trap):
    bare = listener.bare / f"{repo.name}.git"
    ok(listener.git("init", "-q", "--bare", str(bare)))
    hooks = bare / "evil-hooks"
    hooks.mkdir()
    for folder in (hooks, bare / "hooks"):
        for hook in ("pre-receive", "update", "post-receive", "post-update", "reference-transaction"):
            (folder / hook).write_text(f"#!/bin/sh\nexec {trap.program}\n")
            (folder / hook).chmod(0o755)
    with (bare / "config").open("a") as config:
        config.write(f"[core]\nhooksPath = {hooks}\n")
    ok(listener.git("push", "-q", str(bare), "HEAD:refs/heads/main", cwd=str(repo)))
    assert not trap.sprung


def test_what_a_partial_clone_lacks_is_not_fetched_by_a_program(listener, repo, trap):
    with (repo / ".git/config").open("a") as config:
        config.write(
            f'[core]\nrepositoryformatversion = 1\n[extensions]\npartialClone = o\n[remote "o"]\nurl = {repo}\n'
            f"promisor = true\nuploadpack = {trap.program}\n"
        )
    for args in (["show", "0" * 39 + "1"], ["log", "--all", "-p"], ["cat-file", "-p", "1" * 40], ["fsck"]):
        assert "names a program" in listener.git(*args, cwd=str(repo))["stderr"]
    assert not trap.sprung


ASKING = [
    ["status"],
    ["status", "--ignore-submodules=none"],
    ["diff"],
    ["diff", "--submodule=diff"],
    ["diff-files", "-p"],
    ["diff-index", "HEAD"],
    ["log", "-p"],
    ["add", "-A"],
    ["add", "inner"],
    ["commit", "-am", "x"],
    ["commit", "--dry-run", "-v"],
    ["stash"],
    ["checkout", "-f", "."],
    ["checkout", "HEAD~1"],
    ["switch", "-c", "y"],
    ["reset", "--hard"],
    ["describe", "--dirty", "--all"],
    ["rm", "inner"],
    ["mv", "inner", "moved"],
    ["rebase", "HEAD~1"],
    ["merge", "HEAD~1"],
    ["cherry-pick", "HEAD"],
    ["clean", "-fdx"],
    ["update-index", "--refresh"],
    ["read-tree", "-mu", "HEAD"],
    ["grep", "x"],
    ["worktree", "add", "w"],
    ["gc"],
]


@pytest.mark.parametrize("args", ASKING, ids=" ".join)
def test_a_repository_inside_the_worktree_does_not_have_its_own_programs_run(listener, repo, trap, args):
    inner = repo / "inner"
    inner.mkdir()
    git = lambda folder, *args: ok(listener.git(*args, cwd=str(folder)))  # noqa: E731
    git(inner, "init", "-q")
    (inner / "f").write_text("1")
    git(inner, "add", ".")
    git(inner, "commit", "-qm", "inner")
    git(repo, "add", "inner")
    (repo / ".gitmodules").write_text('[submodule "inner"]\npath = inner\nurl = ./inner\nignore = none\n')
    git(repo, "add", ".gitmodules")
    git(repo, "commit", "-qm", "outer")
    with (inner / ".git/config").open("a") as config:
        config.write(
            f'[core]\nfsmonitor = {trap.program}\n[filter "d"]\nclean = {trap.program}\nsmudge = {trap.program}\n'
        )
    (inner / ".gitattributes").write_text("* filter=d\n")
    (inner / "f").write_text("2")
    listener.git(*args, cwd=str(repo))
    assert not trap.sprung, args


def test_a_name_that_no_option_could_override_is_refused(listener, repo, trap):
    with (repo / ".git/config").open("a") as config:
        config.write(f'[filter "a=b"]\nclean = {trap.program}\n')
    (repo / ".gitattributes").write_text("* filter=a=b\n")
    assert "cannot be overridden" in listener.git("add", ".", cwd=str(repo))["stderr"]
    assert not trap.sprung


def test_a_line_that_runs_a_program_in_a_rebase_under_way_is_refused(listener, repo, trap):
    git = lambda *args: listener.git(*args, cwd=str(repo))  # noqa: E731
    ok(git("switch", "-qc", "side"))
    (repo / "a.txt").write_text("side\n")
    ok(git("commit", "-qam", "side"))
    ok(git("switch", "-q", "-"))
    (repo / "a.txt").write_text("main\n")
    ok(git("commit", "-qam", "main"))
    assert not git("rebase", "side")["success"]
    with (repo / ".git/rebase-merge/git-rebase-todo").open("a") as todo:
        todo.write(f"exec {trap.program}\n")
    (repo / "a.txt").write_text("both\n")
    ok(git("add", "."))
    answer = git("rebase", "--continue")
    assert not answer["success"]
    assert "runs a program" in answer["stderr"]
    assert not trap.sprung


STATES = {
    "a step after a tabulator": ("rebase-merge/git-rebase-todo", "exec\tid\n"),
    "the strategy of a rebase": ("rebase-merge/strategy", "x/evil\n"),
    "the strategy of a cherry-pick": ("sequencer/opts", '[options] Strategy="ort"x/evil\n'),
}


@pytest.mark.parametrize("name", STATES)
@pytest.mark.parametrize("command", ["rebase", "cherry-pick", "revert"])
def test_what_was_begun_does_not_go_on_where_that_runs_a_program(listener, repo, name, command):
    path, text = STATES[name]
    (repo / ".git" / path).parent.mkdir()
    (repo / ".git" / path).write_text(text)
    assert "runs a program" in listener.git(command, "--continue", cwd=str(repo))["stderr"]


def test_a_strategy_of_gits_own_is_let_through(listener, repo):
    (repo / "a.txt").write_text("two\n")
    ok(listener.git("commit", "-qam", "two", cwd=str(repo)))
    for words in (("rebase", "-s", "ort", "HEAD~1"), ("merge", "-s", "ours", "HEAD~1"), ("merge", "-sours", "HEAD~1")):
        ok(listener.git(*words, cwd=str(repo)))


def test_the_configuration_of_another_worktree_runs_nothing(listener, repo, trap):
    (repo / ".gitattributes").write_text("* filter=d\n")
    ok(listener.git("add", ".", cwd=str(repo)))
    ok(listener.git("commit", "-qm", "attributes", cwd=str(repo)))
    ok(listener.git("worktree", "add", "-q", "w", cwd=str(repo)))
    ok(listener.git("worktree", "list", cwd=str(repo)))
    subprocess.run(["git", "config", "extensions.worktreeConfig", "true"], cwd=repo, check=True)
    subprocess.run(["git", "config", "--worktree", "filter.d.clean", str(trap.program)], cwd=repo / "w", check=True)
    (repo / "w" / "a.txt").write_text("2wo\n")
    answer = listener.git("worktree", "remove", "w", cwd=str(repo))
    assert not trap.sprung
    assert "configurations of their own" in answer["stderr"]


@pytest.mark.parametrize("key", ["gc.recentObjectsHook", "hook.x.command"])
def test_what_git_runs_every_value_of_is_refused(listener, repo, key):
    subprocess.run(["git", "config", key, "id"], cwd=repo, check=True)
    assert "names a program" in listener.git("gc", cwd=str(repo))["stderr"]


def test_a_repository_that_lies_outside_or_leads_there_is_left_alone(listener, repo, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    subprocess.run(["git", "init", "-q", str(outside)], check=True)
    (outside / "secret").write_text("secret")
    cases = {
        "gitdir file": lambda folder: (folder / ".git").write_text(f"gitdir: {outside}/.git\n"),
        "link": lambda folder: (folder / ".git").symlink_to(outside / ".git"),
        "worktree": lambda folder: (
            subprocess.run(["git", "init", "-q", "."], cwd=folder, check=True)
            and subprocess.run(["git", "config", "core.worktree", str(outside)], cwd=folder, check=True)
        ),
        "template": lambda folder: (
            subprocess.run(["git", "init", "-q", "."], cwd=folder, check=True)
            and subprocess.run(["git", "config", "commit.template", str(outside / "secret")], cwd=folder, check=True)
        ),
    }
    with Listener(tmp_path, "--without-landlock", roots=(listener.root,)) as checks_alone:
        for name, make in cases.items():
            folder = repo / name.replace(" ", "")
            folder.mkdir()
            make(folder)
            answer = checks_alone.git("add", ".", cwd=str(folder))
            assert answer["exit_code"] == 126, (name, answer)
            assert "outside the roots" in answer["stderr"] or "leads out" in answer["stderr"]
            # Behind the wall git may not even find that there is one.
            listener.git("add", ".", cwd=str(folder))
            assert not (outside / ".git" / "index").exists()


def test_a_remote_outside_is_refused_whoever_wrote_it_down(listener, repo, tmp_path):
    subprocess.run(["git", "init", "-q", "--bare", str(tmp_path / "elsewhere.git")], check=True)
    for line in (
        f"url = {tmp_path}/elsewhere.git",
        f"url = file://{tmp_path}/elsewhere.git",
        f"pushurl = {tmp_path}/elsewhere.git",
    ):
        text = (repo / ".git/config").read_text()
        (repo / ".git/config").write_text(text + f'[remote "o"]\n{line}\n')
        assert "leads out" in listener.git("push", "o", "HEAD:x", cwd=str(repo))["stderr"]
        (repo / ".git/config").write_text(text)


def test_a_repository_around_the_root_is_not_found(tmp_path):
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    with Listener(tmp_path) as listener:
        answer = listener.git("status")
        assert "not a git repository" in answer["stderr"]


def test_the_null_device_survives_a_configuration_that_is_nobodys(listener, repo):
    assert not listener.git("config", "--glob", "a.b", "c", cwd=str(repo))["success"]
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)
    assert gitconfig.ENVIRONMENT[b"GIT_CONFIG_GLOBAL"] != b"/dev/null"


# --- links in a git folder ------------------------------------------------------------------------------------------


def plant(listener, repo, target, at):
    """Plant a link in the git folder by nothing but the runner's own commands, as an agent can."""
    git = lambda *args: ok(listener.git(*args, cwd=str(repo)))  # noqa: E731
    ok(listener.ask("write", {"path": str(repo / "target"), "content": str(target)}))
    blob = git("hash-object", "-w", "target").strip()
    git("update-index", "--add", "--cacheinfo", f"120000,{blob},link")
    git("checkout", "--", "link")
    ok(listener.ask("mv", ["link", f".git/{at}"], cwd=str(repo)))


@pytest.mark.parametrize(
    "at", ["COMMIT_EDITMSG", "logs/HEAD", "refs/heads/objects", "index", "objects/info/alternates"]
)
def test_a_link_in_the_git_folder_leads_git_nowhere(listener, repo, tmp_path, at):
    precious = tmp_path / "precious"
    precious.write_text("mine")
    if at in ("logs/HEAD", "index"):
        (repo / ".git" / at).unlink()
    plant(listener, repo, precious, at)
    answer = listener.git("commit", "--allow-empty", "--cleanup=verbatim", "-m", "stolen", cwd=str(repo))
    assert precious.read_text() == "mine"
    assert not answer["success"]
    assert f"a link in its git folder: {at}" in answer["stderr"]
    assert not listener.git("status", cwd=str(repo))["success"]


def test_the_repository_of_another_worktree_and_its_submodules_are_looked_at_too(listener, repo, tmp_path):
    ok(listener.git("worktree", "add", "-q", "../other", cwd=str(repo)))
    (repo / ".git" / "COMMIT_EDITMSG").unlink()
    (repo / ".git" / "modules").mkdir()
    (repo / ".git" / "modules" / "config").symlink_to(tmp_path)
    for folder in (repo, repo.parent / "other"):
        answer = listener.git("log", cwd=str(folder))
        assert "a link in its git folder: modules/config" in answer["stderr"], answer
