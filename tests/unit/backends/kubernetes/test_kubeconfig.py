"""Which cluster: as kubectl finds it, and a sentence with what to do where it finds none."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

import pytest
import yaml

from crabpot.backends.kubernetes.kubeconfig import find
from crabpot.errors import SandboxUnavailable

if TYPE_CHECKING:
    from pathlib import Path


def written(path: Path, *names: str, current: str | None = None, **user: object) -> str:
    document = {
        "current-context": current,
        "contexts": [{"name": one, "context": {"cluster": one, "user": one}} for one in names],
        "clusters": [{"name": one, "cluster": {"server": f"https://{one}.example:6443/"}} for one in names],
        "users": [{"name": one, "user": {"token": f"token of {one}", **user}} for one in names],
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump(document))
    return str(path)


def test_the_current_context_of_the_home_is_taken_and_another_by_name(tmp_path: Path) -> None:
    written(tmp_path / ".kube/config", "a", "b", current="a")
    assert find(None, {}, str(tmp_path)).server == "https://a.example:6443"
    login = find("b", {}, str(tmp_path))
    assert (login.server, login.token) == ("https://b.example:6443", "token of b")
    assert "token of" not in repr(login)


def test_files_of_kubeconfig_are_merged_and_the_first_wins(tmp_path: Path) -> None:
    first = written(tmp_path / "1", "a", current="a", token="first")
    second = written(tmp_path / "2", "a", "b", current="b", token="second")
    environ = {"KUBECONFIG": f"{first}:{second}:{tmp_path}/none"}
    assert find(None, environ, "/nowhere").token == "first"
    assert find("b", environ, "/nowhere").token == "second"


def test_files_that_it_names_are_found_beside_it_and_data_is_decoded(tmp_path: Path) -> None:
    (tmp_path / "certificate").write_bytes(b"certificate")
    more = {"client-certificate": "certificate", "client-key-data": base64.b64encode(b"key").decode()}
    login = find(None, {"KUBECONFIG": written(tmp_path / "1", "a", current="a", **more)}, "/nowhere")
    assert (login.certificate, login.key) == (b"certificate", b"key")


@pytest.mark.parametrize(
    ("context", "text", "said"),
    [
        ("none", None, 'no context "none" (it has a)'),
        (None, "contexts: []", "no current context"),
        (None, "- a", "is not a kubeconfig"),
        (None, "{", "cannot be read"),
        (None, "current-context: a\ncontexts: [{name: a, context: {cluster: x}}]", "names a cluster that is not in it"),
    ],
)
def test_what_is_wrong_with_it_is_told(context: str | None, text: str | None, said: str, tmp_path: Path) -> None:
    path = written(tmp_path / "1", "a", current="a")
    if text is not None:
        (tmp_path / "1").write_text(text)
    with pytest.raises(SandboxUnavailable) as raised:
        find(context, {"KUBECONFIG": path}, "/nowhere")
    assert said in str(raised.value)


def test_no_cluster_at_all_is_told_with_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(SandboxUnavailable, match=r"no cluster is known.*set KUBECONFIG"):
        find(None, {}, str(tmp_path))
    with pytest.raises(SandboxUnavailable, match="has no service account"):
        find(None, {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, str(tmp_path))
