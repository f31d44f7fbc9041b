"""Which keys of a repository a host's git obeys: those on a list, and nothing that has a free name and runs something."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crabpot.elevation.git.keys import judge, says_where

HARMLESS = (
    "core.bare core.filemode user.name user.email remote.origin.url remote.a.b.fetch branch.main.remote "
    "branch.main.merge pull.rebase push.default submodule.x.url extensions.objectformat diff.renames diff.x.xfuncname "
    "url.https://x/.insteadof color.ui merge.ff lfs.repositoryformatversion core.worktree"
).split()
HARMFUL = (
    "core.fsmonitor core.sshcommand core.hookspath core.gitproxy core.pager core.editor core.askpass "
    "core.alternaterefscommand core.attributesfile diff.external diff.x.command diff.x.textconv filter.x.clean "
    "filter.a.b.process filter..smudge merge.x.driver merge.tool mergetool.x.cmd difftool.x.cmd alias.st "
    "credential.helper credential.https://x.helper gpg.program gpg.ssh.program gpg.ssh.defaultkeycommand tar.x.command "
    "trailer.x.cmd interactive.difffilter pager.log sequence.editor submodule.x.update rebase.instructionformat "
    "remote.x.vcs remote.x.proxy http.proxy http.https://x.sslverify sendemail.smtpserver "
    "imap.tunnel man.x.cmd browser.x.cmd web.browser ssh.variant branch.x.mergeoptions init.templatedir lfs.url "
    "lfs.customtransfer.x.path uploadpackx.y guitool.x.cmd core.a.filemode fsmonitor.socketdir unheard.of"
).split()


@pytest.mark.parametrize("key", HARMLESS)
def test_what_names_no_program_is_obeyed(key: str) -> None:
    assert judge(key).fate == "obeyed"


@pytest.mark.parametrize("key", HARMFUL)
def test_whatever_else_there_is_is_kept_out(key: str) -> None:
    assert judge(key).fate == "kept out"


@given(st.text())
def test_a_section_that_nobody_knows_is_kept_out_whatever_it_is_called(name: str) -> None:
    assert judge(f"filter.{name}.clean").fate == "kept out"
    assert judge(f"diff.{name}.textconv").fate == "kept out"
    assert judge(f"diff.{name}.command").fate == "kept out"
    assert judge(f"merge.{name}.driver").fate == "kept out"
    assert judge(f"remote.{name}.receivepack").fate == "refused"
    assert judge(f"includeif.{name}.path").fate == "refused"


def test_what_git_runs_every_value_of_is_refused_since_no_value_replaces_another() -> None:
    for key in ("gc.recentobjectshook", "hook.x.command", "hook.x.event"):
        assert judge(key).fate == "refused"


def test_a_command_is_never_replaced_by_nothing_for_a_shell_would_run_its_arguments() -> None:
    for key in ("trailer.x.cmd", "trailer.x.command", "sendemail.tocmd", "core.alternaterefscommand", "tar.x.command"):
        assert judge(key).neutral == "false"


def test_where_a_push_goes_is_said() -> None:
    for key in ("remote.o.url", "remote.o.pushurl", "url.x.insteadof", "url.x.pushinsteadof", "branch.m.pushremote"):
        assert says_where(key)
    assert not says_where("user.name")
