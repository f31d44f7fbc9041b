"""The images that Crabpot made, as an engine lists them."""

from __future__ import annotations

from typing import Any

from crabpot.images import listing

LABELS = {"crabpot.image.groups": "minimal", "crabpot.image.user": "1000:1000"}


class EngineThatLists:
    """Answers with these images."""

    def __init__(self, *images: dict[str, Any]) -> None:
        self._images = images

    async def get(self, path: str, _query: dict[str, str]) -> list[dict[str, Any]]:
        assert path == "/images/json"
        return list(self._images)


async def test_an_image_is_listed_by_each_of_its_names_newest_first() -> None:
    engine = EngineThatLists(
        {"Id": "sha256:a", "RepoTags": ["one:1", "one:latest"], "Created": 1, "Labels": LABELS},
        {"Id": "sha256:b", "RepoTags": ["two:1"], "Created": 2, "Labels": LABELS},
    )
    assert [one.name for one in await listing.made(engine)] == ["two:1", "one:1", "one:latest"]  # type: ignore[arg-type]


async def test_an_image_that_lost_its_name_has_none_whichever_way_the_engine_says_so() -> None:
    engine = EngineThatLists(
        *(
            {"Id": "sha256:a", "RepoTags": tags, "Created": 1, "Labels": LABELS}
            for tags in (["<none>:<none>"], [], None)
        )
    )
    listed = await listing.made(engine)  # type: ignore[arg-type]
    assert [(one.name, one.id, one.as_json()["name"]) for one in listed] == [(None, "sha256:a", None)] * 3
