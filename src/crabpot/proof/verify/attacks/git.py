"""Attacks by what git sends: more than was shown, to a remote whose hooks the agent wrote, or hostile objects."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from crabpot.model import Place
from crabpot.proof.verify.claims import HAND_OFF, Group, NotCarriedOut, Outcome, few

if TYPE_CHECKING:
    from crabpot.proof.verify.target import Target

claim = Group(HAND_OFF)

_REPOSITORY = (
    "rm -rf .git bare.git; git init -q -b main . && git config user.name x && git config user.email x@x"
    " && echo x > f && git add f && git commit -qm first && git branch unseen"
)
# A server may do anything on an option: merge, skip its tests, make a repository public.
_TELLS_OPTIONS = '#!/bin/sh\n[ -z "$GIT_PUSH_OPTION_0" ] || echo "$GIT_PUSH_OPTION_0" >> "${GIT_DIR:-.}/options"\n'
_HOOKS = "pre-receive update post-receive post-update reference-transaction"
# A repository's folder, as a hand-made tree object: whoever checks it out has its hooks and configuration.
_DOTGIT = (
    " && blob=$(git rev-parse HEAD:f) && printf '100644 .git\\0' > tree"
    " && python3 -c 'import sys; sys.stdout.buffer.write(bytes.fromhex(sys.argv[1]))' $blob >> tree"
    " && made=$(git hash-object -t tree -w --literally tree) && rm tree"
    " && git update-ref refs/heads/main $(echo m | git commit-tree $made)"
)


def _remote(target: Target, name: str) -> str:
    """Make an empty repository of the operator's, by hand: the machine may have git only inside."""
    path = f"{target.bait.folder}/{name}-{target.bait.token}.git"
    for folder in ("objects/info", "objects/pack", "refs/heads", "refs/tags", "hooks"):
        os.makedirs(f"{path}/{folder}")
    config = "[core]\n\tbare = true\n[receive]\n\tadvertisePushOptions = true\n"
    for file, text in (("HEAD", "ref: refs/heads/main\n"), ("config", config), ("hooks/post-receive", _TELLS_OPTIONS)):
        with open(f"{path}/{file}", "x", encoding="ascii") as stream:
            stream.write(text)
    os.chmod(f"{path}/hooks/post-receive", 0o755)  # noqa: S103  a program
    return path


def _options(remote: str) -> list[str]:
    """Return the push options that a remote of ours received."""
    try:
        with open(f"{remote}/options", encoding="utf-8") as stream:
            return [f"option {line.strip()}" for line in stream]
    except FileNotFoundError:
        return []


def _branches(remote: str) -> list[str]:
    return sorted(os.listdir(f"{remote}/refs/heads"))


@claim.about("sandbox", threats=("pushed-unseen", "host-git"))
async def cannot_push_more_than_was_shown(target: Target) -> Outcome:
    """A refspec, a legacy remote, another push URL, options and tags that it configures for `git push origin`."""
    remote, other = _remote(target, "shown"), _remote(target, "other")
    await target.must_run(
        f"{_REPOSITORY} && git remote add origin {remote} && git tag unseen-tag"
        " && git config remote.origin.push +refs/heads/unseen:refs/heads/unseen && git config push.followTags true"
        f" && git config --add remote.origin.url {other} && git config url.{other}.pushInsteadOf {remote}/x"
        f" && mkdir -p .git/remotes && printf 'URL: {other}\\nPush: refs/heads/unseen\\n' > .git/remotes/legacy"
        " && cp .git/remotes/legacy .git/remotes/origin && git config push.pushOption unseen"
    )
    result = await target.leave("git push origin")
    await target.leave("git push legacy")
    await target.shell("rm -rf .git f")
    if result.place is not Place.HOST:
        raise NotCarriedOut(f"nothing was pushed at all: {result.error}")
    there = [*_branches(remote), *_options(remote), *(f"{name} elsewhere" for name in _branches(other))]
    return Outcome(
        held=there in (["main"], []),
        tried="remote.origin.push, a second URL, legacy remotes, a push option and tags, then git push",
        came_back=f"the remotes have {few(there)}",
    )


@claim.about("sandbox", threats=("host-git", "hatch"))
async def cannot_have_the_hooks_of_a_remote_that_it_wrote_run(target: Target) -> Outcome:
    """A remote that is a path in its own folder, by a name, a path or a URL: git would run the hooks there."""
    trace = f"{target.bait.open_folder}/hook"
    before = target.bait.planted()
    await target.must_run(
        f"{_REPOSITORY} && git init -q --bare bare.git && git remote add origin bare.git && for name in {_HOOKS}; do"
        f" printf '#!/bin/sh\\necho ran > {trace}-%s\\n' $name > bare.git/hooks/$name; done"
        " && chmod 755 bare.git/hooks/*"
    )
    own = target.spec.workspace
    words = ("origin", "bare.git", "./bare", f"{own}/bare.git", f"file://{own}/bare.git")
    results = [await target.leave(f"git push {word} main:m{at}") for at, word in enumerate(words)]
    await target.shell("rm -rf .git bare.git f")
    ran = sorted(target.bait.planted() - before)
    said = dict.fromkeys(result.error.message[:160] if result.error else "pushed" for result in results)
    return Outcome(
        held=not ran,
        tried=f"git push to {few(list(words))}, with {len(_HOOKS.split())} hooks there",
        came_back=f"RAN: {few(ran)}" if ran else few(list(said)),
    )


@claim.about("sandbox", threats=("host-git", "pushed-unseen"))
async def cannot_push_what_attacks_a_git_folder(target: Target) -> Outcome:
    """A tree with an entry called `.git`, which becomes a repository's own where somebody checks it out."""
    remote = _remote(target, "checked")
    await target.must_run(f"{_REPOSITORY}{_DOTGIT} && git remote add origin {remote}")
    result = await target.leave("git push origin main")
    await target.shell("rm -rf .git f")
    said = result.error.message if result.error else result.stderr
    return Outcome(
        held=not _branches(remote),
        tried="a commit whose tree has an entry called .git, then git push",
        came_back=f"PUSHED: {few(_branches(remote))}" if _branches(remote) else said.strip()[:300],
    )
