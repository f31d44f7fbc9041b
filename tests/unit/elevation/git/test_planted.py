"""A planted repository runs nothing on the host. Each attack is first seen to succeed with plain git."""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from crabpot.errors import HostRefused

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

QUIET = {
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_SYSTEM": "/dev/null",
    "HOME": "/nowhere",
    "GIT_TERMINAL_PROMPT": "0",
    "PATH": os.environ["PATH"],
}


class Planted:
    """A repository in the agent's workspace, a remote outside of it, and a program that leaves a mark."""

    def __init__(self, machine: Any, folder: Path) -> None:
        self.machine, self.folder = machine, machine.workspace
        self.mark = folder / "mark"
        self.remote = folder / "remote.git"
        self.evil = self.program("evil", "exit 0")
        subprocess.run(["git", "init", "-q", "--bare", str(self.remote)], check=True, env=QUIET)
        self.git("init", "-q", "-b", "main")
        self.config("user.name", "n")
        self.config("user.email", "e@x")
        self.config("remote.origin.url", str(self.remote))
        self.write("a.x", "one\n")
        self.write(".gitattributes", "*.x filter=evil diff=evil merge=evil\n")
        self.commit("first")

    def program(self, name: str, then: str) -> str:
        """Write a program into the workspace that leaves the mark."""
        path = self.folder / name
        path.write_text(f"#!/bin/sh\ntouch {self.mark}\n{then}\n")
        path.chmod(0o755)
        return str(path)

    def git(self, *words: str, cwd: str = ".", stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        """Run plain git, as if nothing were known of attacks."""
        return subprocess.run(
            ["git", *words],
            cwd=self.folder / cwd,
            env=QUIET,
            input=stdin,
            capture_output=True,
            check=False,
            timeout=20,
        )

    def config(self, key: str, value: str, cwd: str = ".") -> None:
        assert self.git("config", key, value, cwd=cwd).returncode == 0

    def write(self, name: str, text: str) -> None:
        (self.folder / name).write_text(text)

    def commit(self, message: str, cwd: str = ".") -> None:
        self.git("add", "-A", cwd=cwd)
        assert self.git("commit", "-q", "-m", message, cwd=cwd).returncode == 0, message

    def hook(self, name: str, git_dir: str = ".git") -> None:
        hooks = self.folder / git_dir / "hooks"
        hooks.mkdir(exist_ok=True)
        shutil.copy(self.evil, hooks / name)

    def ran(self) -> bool:
        """Whether the mark was left since this was last asked."""
        left = self.mark.exists()
        self.mark.unlink(missing_ok=True)
        return left


@pytest.fixture
def planted(machine: Any, tmp_path: Path) -> Planted:
    made = Planted(machine, tmp_path)
    made.mark.unlink(missing_ok=True)
    return made


def modified(planted: Planted) -> None:
    planted.write("a.x", "two\n")


def hooks(*names: str) -> Callable[[Planted], None]:
    def plant(planted: Planted) -> None:
        for name in names:
            planted.hook(name)

    return plant


def keys(**values: str) -> Callable[[Planted], None]:
    """Set keys, written with _ for the dots; EVIL is the program."""

    def plant(planted: Planted) -> None:
        modified(planted)
        for key, value in values.items():
            planted.config(key.replace("_", "."), value.replace("EVIL", planted.evil))

    return plant


def conflict(planted: Planted) -> None:
    planted.config("merge.evil.driver", f"{planted.evil} %A %O %B")
    planted.git("checkout", "-q", "-b", "side")
    modified(planted)
    planted.commit("side")
    planted.git("checkout", "-q", "main")
    planted.write("a.x", "three\n")
    planted.commit("main")
    planted.ran()


def smudge(planted: Planted) -> None:
    planted.config("filter.evil.smudge", planted.evil)
    (planted.folder / "a.x").unlink()


def worktree_config(planted: Planted) -> None:
    modified(planted)
    planted.config("extensions.worktreeConfig", "true")
    assert planted.git("config", "--worktree", "core.fsmonitor", planted.evil).returncode == 0


def linked_git_folder(planted: Planted) -> None:
    (planted.folder / ".git").rename(planted.folder / "elsewhere")
    planted.write(".git", "gitdir: elsewhere\n")
    planted.config("core.fsmonitor", planted.evil)


def submodule(planted: Planted) -> None:
    planted.git("init", "-q", "-b", "main", "sub")
    for key, value in (("user.name", "n"), ("user.email", "e@x")):
        planted.config(key, value, cwd="sub")
    planted.write("sub/b.x", "one\n")
    planted.write("sub/.gitattributes", "*.x filter=inner\n")
    planted.commit("sub", cwd="sub")
    planted.write(".gitmodules", '[submodule "sub"]\n\tpath = sub\n\turl = ./sub\n\tignore = none\n')
    planted.commit("with sub")


def submodule_filter(planted: Planted) -> None:
    submodule(planted)
    planted.config("filter.inner.clean", planted.evil, cwd="sub")
    planted.write("sub/b.x", "2wo\n")
    planted.ran()


def submodule_monitor(planted: Planted) -> None:
    submodule(planted)
    planted.config("core.fsmonitor", planted.evil, cwd="sub")
    planted.ran()


def submodule_update(planted: Planted) -> None:
    submodule(planted)
    planted.config("submodule.sub.url", f"file://{planted.folder}/sub")
    planted.config("submodule.sub.update", f"!{planted.evil}")
    planted.git("-C", "sub", "commit", "-q", "--allow-empty", "-m", "ahead")
    planted.ran()


def serving_hooks(planted: Planted) -> None:
    planted.git("init", "-q", "--bare", "inner.git")
    planted.hook("post-update", "inner.git")
    planted.hook("pre-receive", "inner.git")
    planted.config("remote.origin.url", "./inner.git")
    planted.ran()


def diverged(planted: Planted) -> None:
    """Two branches, so that there is something to rebase."""
    planted.git("checkout", "-q", "-b", "side")
    planted.write("b", "side\n")
    planted.commit("side")
    planted.git("checkout", "-q", "main")
    planted.write("c", "main\n")
    planted.commit("main")


def steps_in_a_format(planted: Planted) -> None:
    diverged(planted)
    planted.config("rebase.instructionFormat", f"%s%nexec {planted.evil}")
    planted.config("branch.main.remote", ".")
    planted.config("branch.main.merge", "refs/heads/side")
    planted.config("pull.rebase", "true")


def kept_submodule(planted: Planted) -> None:
    """Not checked out, so that nothing of it is in the work tree yet."""
    submodule(planted)
    planted.config("submodule.sub.url", f"file://{planted.folder}/sub")
    assert planted.git("submodule", "absorbgitdirs").returncode == 0
    assert planted.git("submodule", "deinit", "-f", "sub").returncode == 0
    planted.config("submodule.sub.url", f"file://{planted.folder}/sub")
    planted.git("config", "-f", ".git/modules/sub/config", "filter.inner.smudge", planted.evil)
    planted.ran()


def other_work_tree(planted: Planted) -> None:
    planted.config("extensions.worktreeConfig", "true")
    assert planted.git("worktree", "add", "-q", str(planted.folder / "deep" / "er"), "-b", "other").returncode == 0
    planted.git("config", "--worktree", "filter.evil.clean", planted.evil, cwd="deep/er")
    planted.write("deep/er/a.x", "two\n")
    (planted.folder / "deep" / "er" / ".git").rename(planted.folder / "pointer")
    planted.write("pointer", f"gitdir: {planted.folder}/.git/worktrees/er\n")
    planted.write(".git/worktrees/er/gitdir", f"{planted.folder}/deep/er/.git\n")
    (planted.folder / "pointer").rename(planted.folder / "deep" / "er" / ".git")
    planted.ran()


PUSH = ("push", "origin", "main")
ATTACKS: dict[str, tuple[Callable[[Planted], None], tuple[str, ...]]] = {
    "hook pre-push": (hooks("pre-push"), PUSH),
    "hook reference-transaction": (hooks("reference-transaction"), ("branch", "x")),
    "hooks of commit": (hooks("pre-commit", "commit-msg", "post-commit"), ("commit", "--allow-empty", "-m", "x")),
    "hook post-checkout": (hooks("post-checkout"), ("checkout", "-f", "HEAD")),
    "hook post-index-change": (hooks("post-index-change"), ("add", "-A")),
    "core.hooksPath": (lambda p: (p.hook("pre-push"), p.config("core.hooksPath", f"{p.folder}/.git/hooks"))[0], PUSH),
    "core.fsmonitor on status": (keys(core_fsmonitor="EVIL"), ("status",)),
    "core.fsmonitor on diff": (keys(core_fsmonitor="EVIL"), ("diff",)),
    "core.fsmonitor of the work tree": (worktree_config, ("status",)),
    "core.fsmonitor behind a linked git folder": (linked_git_folder, ("status",)),
    "core.sshCommand": (keys(core_sshCommand="EVIL", remote_origin_url="ssh://127.0.0.1:1/x"), PUSH),
    "core.gitProxy": (keys(core_gitProxy="EVIL", remote_origin_url="git://127.0.0.1:1/x"), ("fetch", "origin")),
    "core.editor": (keys(core_editor="EVIL"), ("commit", "--allow-empty")),
    "core.askPass": (keys(core_askPass="EVIL"), ("credential", "fill")),
    "diff.external": (keys(diff_external="EVIL"), ("diff",)),
    "diff command": (keys(diff_evil_command="EVIL"), ("diff",)),
    "diff textconv": (keys(diff_evil_textconv="EVIL"), ("diff",)),
    "filter clean on status": (keys(filter_evil_clean="EVIL"), ("add", "a.x")),
    "filter clean that is required": (keys(filter_evil_clean="EVIL", filter_evil_required="true"), ("diff",)),
    "filter process": (keys(filter_evil_process="EVIL"), ("diff",)),
    "filter smudge": (smudge, ("checkout", "-f")),
    "merge driver": (conflict, ("merge", "side", "-m", "x")),
    "alias": (keys(alias_st="!EVIL"), ("st",)),
    "credential helper": (keys(credential_helper="EVIL"), ("credential", "fill")),
    "gpg program": (keys(gpg_program="EVIL", commit_gpgSign="true"), ("commit", "--allow-empty", "-m", "x")),
    "gpg default key": (
        keys(gpg_ssh_defaultKeyCommand="EVIL", gpg_format="ssh", commit_gpgSign="true"),
        ("commit", "--allow-empty", "-m", "x"),
    ),
    "tar command": (keys(tar_evil_command="EVIL"), ("archive", "--format=evil", "HEAD")),
    "trailer command": (
        keys(trailer_foo_command="EVIL"),
        ("interpret-trailers", "--trailer", "foo=1", ".gitattributes"),
    ),
    "remote ext": (keys(protocol_ext_allow="always", remote_origin_url="ext::EVIL %S"), ("fetch", "origin")),
    "a remote in the folder, with hooks of its own": (serving_hooks, PUSH),
    "filter of a submodule": (submodule_filter, ("status",)),
    "core.fsmonitor of a submodule": (submodule_monitor, ("status",)),
    "steps of a rebase by their format": (steps_in_a_format, ("rebase", "side")),
    "steps of a pull by their format": (steps_in_a_format, ("pull",)),
    "filter of a submodule that is not checked out": (kept_submodule, ("submodule", "update")),
    "filter of another work tree": (other_work_tree, ("worktree", "remove", "deep/er")),
    "submodule update": (submodule_update, ("submodule", "update")),
}


@pytest.mark.parametrize("name", ATTACKS)
async def test_what_the_repository_says_runs_with_plain_git_and_not_with_ours(planted: Planted, name: str) -> None:
    plant, words = ATTACKS[name]
    plant(planted)
    backup = planted.folder.with_name("backup")
    shutil.copytree(planted.folder, backup, symlinks=True)
    stdin = b"url=https://h.invalid/\n\n"
    planted.git(*words, stdin=stdin)
    assert planted.ran(), "the attack itself does not work, so that its failure would show nothing"
    shutil.rmtree(planted.folder)
    backup.rename(planted.folder)

    async def source() -> Any:
        yield stdin

    reply = await planted.machine.run("git", *words, source=source())
    assert not planted.ran(), reply
    assert reply.exit_code is not None


async def test_an_honest_repository_works_as_ever(planted: Planted) -> None:
    planted.write("b", "new\n")
    assert "b" in (await planted.machine.run("git", "status", "--short")).stdout
    assert (await planted.machine.run("git", "add", "-A")).success
    assert (await planted.machine.run("git", "commit", "-m", "second")).success
    reply = await planted.machine.run("git", "push", "origin", "main")
    assert reply.success, reply
    assert planted.git("rev-parse", "main").stdout == planted.git("rev-parse", "main", cwd="../remote.git").stdout
    assert (await planted.machine.run("git", "fetch", "origin", "main")).success
    assert (await planted.machine.run("git", "log", "--oneline")).stdout.count("\n") == 2


async def test_diffs_and_merges_still_work_where_their_programs_are_kept_out(planted: Planted) -> None:
    conflict(planted)
    planted.config("diff.external", planted.evil)
    planted.config("diff.evil.textconv", planted.evil)
    merged = await planted.machine.run("git", "merge", "side", "-m", "x")
    assert (merged.exit_code, "CONFLICT" in merged.stdout) == (1, True)
    assert "<<<<<<<" in (planted.folder / "a.x").read_text()
    shown = await planted.machine.run("git", "diff", "main~", "main", "--", "a.x")
    assert "-one" in shown.stdout
    assert "+three" in shown.stdout
    assert not planted.ran()


async def test_what_is_kept_out_and_where_a_push_goes_is_told_before_anybody_agrees(planted: Planted) -> None:
    planted.hook("pre-push")
    planted.config("filter.evil.clean", "touch x")
    planted.config("core.fsmonitor", planted.evil)
    told = (await planted.machine.plan("git", "push")).executes
    assert "git hook pre-push (kept out)" in told
    assert "git config filter.evil.clean = touch x (kept out)" in told
    assert f"git config core.fsmonitor = {planted.evil} (kept out)" in told
    assert f"git config remote.origin.url = {planted.remote}" in told
    assert not any("user.name" in line for line in told)


async def test_nothing_planted_hides_where_a_push_goes(planted: Planted) -> None:
    for number in range(20):
        planted.hook(f"hook-{number}")
        planted.config(f"alias.a{number}", "!x")
        planted.config(f"remote.r{number}.url", "https://harmless.invalid/")
    planted.config("url.https://evil.invalid/.insteadOf", str(planted.remote))
    plan = await planted.machine.plan("git", "push", "origin", "main")
    assert plan.executes[0] == f"git config url.https://evil.invalid/.insteadof = {planted.remote}"
    assert plan.executes[1] == f"git config remote.origin.url = {planted.remote}"
    assert plan.dangers == ("the repository names 22 places; read them all",)


async def test_the_operators_own_value_counts_where_the_repository_sets_the_same_key(planted: Planted) -> None:
    planted.machine.home.joinpath(".gitconfig").write_text(
        '[filter "evil"]\n\tclean = sed s/two/OPERATOR/\n[credential]\n\thelper = "!echo username=op; echo password=p #"\n'
    )
    planted.machine.host.environ["HOME"] = str(planted.machine.home)
    keys(filter_evil_clean="EVIL", credential_helper="EVIL")(planted)
    assert "+OPERATOR" in (await planted.machine.run("git", "diff")).stdout

    async def source() -> Any:
        yield b"url=https://h.invalid/\n\n"

    assert "username=op" in (await planted.machine.run("git", "credential", "fill", source=source())).stdout
    assert not planted.ran()


UNYIELDING = [
    "include.path",
    "includeIf.onbranch:main.path",
    "includeIf.gitdir:/**.path",
    "remote.origin.uploadpack",
    "remote.any.receivepack",
    "gc.recentObjectsHook",
    "hook.any.command",
]


@pytest.mark.parametrize("key", UNYIELDING)
async def test_what_no_other_value_can_replace_refuses_the_run_and_is_named(planted: Planted, key: str) -> None:
    planted.write("more", f"[core]\n\tfsmonitor = {planted.evil}\n")
    planted.config(key, "../more")
    with pytest.raises(HostRefused, match=f"(?i){key.partition('.')[0]}.*cannot be kept out") as refused:
        await planted.machine.plan("git", "push")
    assert refused.value.code == "denied"


async def test_a_repository_changed_after_it_was_shown_is_refused(planted: Planted) -> None:
    from crabpot.backends.host.elevated import run

    plan = await planted.machine.plan("git", "push")
    planted.config("remote.origin.url", "https://elsewhere.invalid/")
    with pytest.raises(HostRefused, match="changed after it was shown"):
        await run(plan, timeout_s=5, output_limit=65536)


LINKS = [
    "index",
    "logs",
    "logs/HEAD",
    "config",
    "FETCH_HEAD",
    "refs",
    "refs/heads",
    "packed-refs",
    "objects",
    "hooks",
]


@pytest.mark.parametrize("name", LINKS)
async def test_no_part_of_the_git_folder_leads_to_the_operators_files(
    planted: Planted, tmp_path: Path, name: str
) -> None:
    target = tmp_path / "operators"
    part = planted.folder / ".git" / name
    if part.exists():
        part.rename(target)
    part.symlink_to(target)
    with pytest.raises(HostRefused):
        await planted.machine.plan("git", "commit", "--allow-empty", "-m", "x")


async def test_a_git_folder_elsewhere_is_refused_and_so_are_work_trees_and_objects(
    planted: Planted, tmp_path: Path
) -> None:
    private = tmp_path / "private"
    planted.git("init", "-q", str(private))
    planted.config("core.worktree", str(private))
    with pytest.raises(HostRefused, match="the work tree leads to"):
        await planted.machine.plan("git", "status")
    planted.git("config", "--unset", "core.worktree")
    planted.write(".git/objects/info/alternates", f"{private}/.git/objects\n")
    with pytest.raises(HostRefused, match="alternates leads to"):
        await planted.machine.plan("git", "status")
    shutil.rmtree(planted.folder / ".git")
    planted.write(".git", f"gitdir: {private}/.git\n")
    for words in (("status",), ("-C", ".", "status"), ("--git-dir=.git", "log"), ("--git-dir", "x/../.git", "log")):
        (planted.folder / "x").mkdir(exist_ok=True)
        with pytest.raises(HostRefused, match="out of"):
            await planted.machine.plan("git", *words)


BEGUN = {
    "a step": ("rebase-merge/git-rebase-todo", "pick 1\nexec EVIL\n"),
    "a step by its letter": ("rebase-merge/git-rebase-todo", "  x EVIL\n"),
    "a step after a tabulator": ("rebase-merge/git-rebase-todo", "exec\tEVIL\n"),
    "the strategy of a rebase": ("rebase-merge/strategy", "x/evil\n"),
    "the strategy of a cherry-pick": ("sequencer/opts", "[options] Strategy=x/evil\n"),
    "one that is quoted": ("sequencer/opts", '[options]\n\tstrategy = "ort"x/evil\n'),
}


@pytest.mark.parametrize("name", BEGUN)
@pytest.mark.parametrize("words", [("rebase", "--continue"), ("cherry-pick", "--skip"), ("an-alias-of-the-operators",)])
async def test_whatever_goes_on_with_what_was_begun_is_refused_where_that_runs_programs(
    planted: Planted, name: str, words: tuple[str, ...]
) -> None:
    path, text = BEGUN[name]
    file = planted.folder / ".git" / path
    file.parent.mkdir()
    file.write_text(text.replace("EVIL", planted.evil))
    with pytest.raises(HostRefused, match="begun rebase"):
        await planted.machine.plan("git", *words)


async def test_a_begun_rebase_that_runs_nothing_goes_on(planted: Planted) -> None:
    planted.git("checkout", "-q", "-b", "side")
    planted.write("b", "side\n")
    planted.commit("side")
    planted.git("checkout", "-q", "main")
    planted.write("b", "main\n")
    planted.commit("main")
    assert planted.git("rebase", "-s", "ort", "side").returncode != 0
    planted.write("b", "both\n")
    planted.git("add", "b")
    reply = await planted.machine.run("git", "-c", "core.editor=true", "rebase", "--skip")
    assert reply.exit_code == 0, reply


@pytest.mark.parametrize("what", ["modules", "modules/sub"])
async def test_no_link_leads_git_to_a_repository_that_was_not_looked_at(planted: Planted, what: str) -> None:
    kept_submodule(planted)
    (planted.folder / ".git" / what).rename(planted.folder / "elsewhere")
    (planted.folder / ".git" / what).symlink_to(planted.folder / "elsewhere")
    with pytest.raises(HostRefused, match="is a link"):
        await planted.machine.plan("git", "submodule", "update")


async def test_a_bare_repository_in_the_folder_is_not_entered_by_itself(planted: Planted) -> None:
    planted.git("init", "-q", "--bare", "bare")
    planted.config("core.fsmonitor", planted.evil, cwd="bare")
    with pytest.raises(HostRefused, match="bare repository"):
        await planted.machine.plan("git", "status", cwd="bare")


async def test_the_operators_repository_above_the_workspace_is_found_and_neutralised(
    planted: Planted, tmp_path: Path
) -> None:
    shutil.rmtree(planted.folder / ".git")
    planted.git("init", "-q", str(tmp_path))
    reply = await planted.machine.run("git", "rev-parse", "--show-toplevel")
    assert reply.stdout.strip() == str(tmp_path)


async def test_where_there_is_no_repository_git_says_so_itself(machine: Any) -> None:
    reply = await machine.run("git", "status")
    assert reply.exit_code == 128
    assert "not a git repository" in reply.stderr
    assert (await machine.run("git", "--version")).stdout.startswith("git version")


async def test_programs_that_use_git_get_the_same_walls(planted: Planted) -> None:
    planted.machine.script("gh", "#!/bin/sh\nexec git status --short\n")
    keys(core_fsmonitor="EVIL")(planted)
    assert "a.x" in (await planted.machine.run("gh", "pr", "create")).stdout
    assert not planted.ran()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("-c", "core.fsmonitor=x", "status"), "git -c sets"),
        (("--exec-path=/x", "status"), "git --exec-path sets"),
        (("push", "--receive-pack=x"), "--receive-pack=x names a program"),
        (("rebase", "-x", "make"), "-x names a program"),
        (("bisect", "run", "x"), "run names a program"),
        (("submodule", "foreach", "x"), "foreach names a program"),
        (("push", "--rec=x"), "--rec=x names a program"),
        (("push", "--exe", "x"), "--exe names a program"),
        (("rebase", "-qx", "make"), "-qx names a program"),
        (("clone", "-qu", "x", "y"), "-qu names a program"),
        (("cherry-pick", "--strategy=x/evil", "y"), "--strategy=x/evil names a program"),
        # `--` is the value of -o here, and ends nothing.
        (("push", "-o", "--", "--receive-pack=x"), "--receive-pack=x names a program"),
        (("rebase", "-sx/evil", "y"), "-sx/evil names a program"),
        (("log", "--output=/home/me/.profile"), "names a file or folder to write"),
        (("diff", "--outp=x"), "names a file or folder to write"),
        (("config", "--glob", "a.b", "c"), "names a file or folder to write"),
    ],
)
async def test_words_of_git_that_name_programs_are_marked(planted: Planted, words: tuple[str, ...], said: str) -> None:
    assert any(said in line for line in (await planted.machine.plan("git", *words)).dangers)


@pytest.mark.parametrize(
    "words",
    [
        ("status",),
        ("push", "origin", "main"),
        ("log", "-x"),
        ("add", "run"),
        ("push", "--force-with-lease", "--tags"),
        ("log", "--oneline", "--stat", "--", "a.x"),
        ("commit", "-am", "--exec is text"),
        ("cherry-pick", "-x", "-s", "a"),
    ],
)
async def test_ordinary_words_are_not(planted: Planted, words: tuple[str, ...]) -> None:
    assert (await planted.machine.plan("git", *words)).dangers == ()
