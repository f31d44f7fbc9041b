"""The gateway in the cluster: what `render kubernetes` prints is applied, runs, and is used from outside, by TLS and a token."""

from __future__ import annotations

import json
import os
import re
import ssl
import subprocess
import sys
import urllib.error
import urllib.request
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.cluster.conftest import Cluster

# Beside the lane's own namespace, which other tests use.
SANDBOXES, HOME = "crabpot-deployed", "crabpot-deployed-gateway"
HOST = f"crabpot.{HOME}.svc"
TOKEN = "/var/lib/crabpot/state/http.token"


def certificate(folder: Path) -> tuple[str, str]:
    key, made = str(folder / "tls.key"), str(folder / "tls.crt")
    words = [
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:P-256",
        "-nodes",
        "-days",
        "2",
        "-subj",
        "/CN=crabpot",
    ]
    named = ["-addext", f"subjectAltName=DNS:{HOST},DNS:localhost", "-keyout", key, "-out", made]
    subprocess.run(["openssl", "req", *words, *named], check=True, capture_output=True)
    return made, key


def rendered(folder: Path) -> str:
    chosen = {"inet": "refuse", "namespace": SANDBOXES, "image": "crabpot-sandbox:latest"}
    config = folder / "crabpot.json5"
    config.write_text(
        json.dumps({"agents": {"defaults": {"sandbox": {"backend": "kubernetes", "kubernetes": chosen}}}})
    )
    words = ["--config", str(config), "--state", str(folder / "state"), "render", "kubernetes", "--no-claim"]
    return subprocess.run([sys.executable, "-m", "crabpot", *words], check=True, capture_output=True, text=True).stdout


@contextmanager
def deployed(cluster: Cluster, folder: Path) -> Iterator[ssl.SSLContext]:
    """Deploy it, and yield what trusts its certificate; nothing of it stays."""
    made, key = certificate(folder)
    text = rendered(folder)
    try:
        cluster.anywhere("create", "namespace", HOME)
        cluster.anywhere("-n", HOME, "create", "secret", "tls", "crabpot-tls", f"--cert={made}", f"--key={key}")
        cluster.anywhere("apply", "-f", "-", stdin=text)
        cluster.anywhere("-n", HOME, "rollout", "status", "deploy/crabpot", "--timeout=100s")
        yield ssl.create_default_context(cafile=made)
    finally:
        cluster.anywhere("delete", "--ignore-not-found", "--timeout=100s", "namespace", HOME)
        cluster.anywhere("delete", "--ignore-not-found", "--timeout=100s", "namespace", SANDBOXES)


@contextmanager
def forwarded(cluster: Cluster) -> Iterator[str]:
    """Forward a port of the loopback to its service, and yield the URL."""
    argv = cluster.argv("-n", HOME, "port-forward", "svc/crabpot", ":443")
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            found = re.search(r":(\d+) ->", process.stdout.readline())
            assert found is not None
            yield f"https://localhost:{found[1]}"
        finally:
            process.terminate()


def renew(cluster: Cluster, folder: Path) -> None:
    """Replace the certificate in the cluster; a change of the pod has its kubelet look at once, and not in a minute."""
    folder.mkdir()
    made, key = certificate(folder)
    words = (
        "create",
        "secret",
        "tls",
        "crabpot-tls",
        f"--cert={made}",
        f"--key={key}",
        "--dry-run=client",
        "-o",
        "json",
    )
    cluster.anywhere(
        "-n", HOME, "apply", "--server-side", "--force-conflicts", "-f", "-", stdin=cluster.anywhere(*words)
    )
    cluster.anywhere("-n", HOME, "annotate", "pods", "--all", f"test/renewed={os.urandom(4).hex()}", "--overwrite")


def is_served(url: str, trusting: ssl.SSLContext) -> bool:
    """Return whether the gateway answers under a certificate that is trusted here."""
    try:
        with urllib.request.urlopen(f"{url}/health", context=trusting, timeout=20) as reply:
            return bool(reply.status == 200)
    except OSError:
        return False


def test_the_rendered_gateway_is_used_by_tls_and_a_token_and_takes_a_renewed_certificate(
    cluster: Cluster, tmp_path: Path
) -> None:
    with deployed(cluster, tmp_path) as trusting, forwarded(cluster) as url:
        token = cluster.anywhere("-n", HOME, "exec", "deploy/crabpot", "--", "cat", TOKEN).strip()

        def call(bearer: str | None) -> dict[str, Any]:
            headers = {"Content-Type": "application/json"} | (
                {} if bearer is None else {"Authorization": f"Bearer {bearer}"}
            )
            address = f"{url}/v1/sessions/agent:main:{os.urandom(4).hex()}/tools/exec"
            asked = urllib.request.Request(address, b'{"command": "id -u; echo inside"}', headers)
            with urllib.request.urlopen(asked, context=trusting, timeout=100) as reply:
                answer: dict[str, Any] = json.load(reply)
                return answer

        for wrong in (None, "no-such-token"):
            with pytest.raises(urllib.error.HTTPError, match="401"):
                call(wrong)
        result = call(token)
        assert (result["error"], result["place"]) == (None, "sandbox")
        uid, inside = result["stdout"].split()
        assert (int(uid) >= 1_000_000_000, inside) == (True, "inside")
        (pod,) = json.loads(cluster.anywhere("-n", SANDBOXES, "get", "pods", "-o", "json"))["items"]
        assert pod["metadata"]["labels"]["app.kubernetes.io/managed-by"] == "crabpot"
        renew(cluster, tmp_path / "renewed")
        renewed = ssl.create_default_context(cafile=str(tmp_path / "renewed/tls.crt"))
        wait_until(lambda: is_served(url, renewed), within_s=180)
        assert not is_served(url, trusting)
        # It ends its sandboxes itself when it is told to end.
        cluster.anywhere("-n", HOME, "scale", "deploy/crabpot", "--replicas=0")
        wait_until(lambda: not json.loads(cluster.anywhere("-n", SANDBOXES, "get", "pods", "-o", "json"))["items"])
