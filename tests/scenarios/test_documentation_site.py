"""The site of docs/: it builds without a broken link, and a browser that opens it asks nobody else for anything."""

from __future__ import annotations

import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

ROOT = Path(__file__).parents[2]
PATIENCE_S = 600.0

# Attributes that a browser follows by itself, and the links of a page's head that it loads.
LOADED = {"src", "srcset", "data", "poster"}
LOADED_LINKS = {"stylesheet", "icon", "shortcut", "preload", "modulepreload", "preconnect", "dns-prefetch", "manifest"}


class Page(HTMLParser):
    """What one page loads, and where its links lead."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.feed(path.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.anchors |= {given[name] for name in ("id", "name") if name in given}
        self.loads += [given[name] for name in LOADED & given.keys()]
        if tag == "link" and LOADED_LINKS & set(given.get("rel", "").split()):
            self.loads.append(given["href"])
        if tag == "a" and "href" in given:
            self.links.append(given["href"])


def build(checkout: Path, out: Path) -> tuple[int, str]:
    command = [checkout / "scripts/docs", out]
    built = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    return built.returncode, built.stdout + built.stderr


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("site")
    code, said = build(ROOT, out)
    assert code == 0, said
    return out


def pages(site: Path) -> dict[Path, Page]:
    found = {path: Page(path) for path in site.rglob("*.html")}
    assert len(found) > len(list((ROOT / "docs").rglob("*.md"))), "every document is a page, and 404.html is one more"
    return found


def is_elsewhere(address: str) -> bool:
    return bool(urlsplit(address).netloc) or urlsplit(address).scheme not in ("", "data")


def test_no_page_loads_anything_from_elsewhere(site: Path) -> None:
    loads = {address for page in pages(site).values() for address in page.loads}
    assert loads, "pages have styles and scripts"
    assert not {address for address in loads if is_elsewhere(address)}


def test_no_style_loads_anything_from_elsewhere(site: Path) -> None:
    styles = [path.read_text() for path in site.rglob("*.css")]
    inline = re.findall(r"<style[^>]*>(.*?)</style>", "".join(p.read_text() for p in site.rglob("*.html")), re.DOTALL)
    drawn = [path.read_text() for path in site.rglob("*.svg")]
    for text in [*styles, *inline, *drawn]:
        addresses = re.findall(r"""url\(\s*["']?([^"')]+)|@import\s+["']([^"']+)""", text)
        assert not [address for pair in addresses for address in pair if address and is_elsewhere(address)]


def test_no_picture_or_script_loads_anything_from_elsewhere(site: Path) -> None:
    for path in site.rglob("*.svg"):
        assert not re.findall(r"""(?:href|src)\s*=\s*["'](?:https?:)?//""", path.read_text()), path
    for path in [*site.rglob("*.js"), *site.rglob("*.html")]:
        assert not re.findall(r"""(?:fetch|import|importScripts|open)\(\s*["'`](?:https?:)?//""", path.read_text()), (
            path
        )


def test_every_relative_link_of_the_built_site_leads_to_a_page_and_an_anchor(site: Path) -> None:
    known = pages(site)
    broken = []
    for path, page in known.items():
        for link in page.links:
            address = urlsplit(link)
            if is_elsewhere(link) or path.name == "404.html":
                continue
            target = (path.parent / unquote(address.path)).resolve() if address.path else path
            fragment = unquote(address.fragment)
            anchored = not fragment or target.suffix != ".html" or fragment in known[target].anchors
            if not target.is_file() or not anchored:
                broken.append(f"{path.relative_to(site)}: {link}")
    assert not broken


@pytest.mark.parametrize("broken", ["[x](nowhere.md)", "[x](security.md#nowhere)", "![x](nothing.svg)", "[x](rooms/)"])
def test_a_broken_link_anchor_or_picture_fails_the_build(site: Path, tmp_path: Path, broken: str) -> None:
    for name in (".venv", ".venv-docs", "requirements.lock", "requirements-dev.lock", "requirements-docs.lock"):
        (tmp_path / name).symlink_to(ROOT / name)
    for name in ("docs", "scripts"):
        shutil.copytree(ROOT / name, tmp_path / name)
    shutil.copy(ROOT / "properdocs.yml", tmp_path)
    with (tmp_path / "docs/images.md").open("a") as page:
        page.write(f"\n{broken}\n")
    code, said = build(tmp_path, tmp_path / "out")
    assert code != 0
    assert "images.md" in said


def test_the_search_is_in_the_site_itself(site: Path) -> None:
    assert "glossary.html" in (site / "search/search_index.json").read_text()


def test_make_builds_it_although_a_folder_has_the_targets_name() -> None:
    said = subprocess.run(
        ["make", "--no-print-directory", "-n", "docs"], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True
    )
    assert said.stdout.splitlines()[-1] == "scripts/docs"
