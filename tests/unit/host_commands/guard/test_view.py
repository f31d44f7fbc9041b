"""What bwrap is told: nothing is mounted below what an agent writes, and what is hidden comes before what is shown."""

from __future__ import annotations

from crabpot.host_commands.guard.view import Descriptors, Mount, View, arguments, outermost, reaches, writable

GIVEN = Descriptors(filter=7, report=8, empty=(9,))


def told(**fields: object) -> list[str]:
    view = View(**{"hides": (), "shows": (), "writes": (), **fields})  # type: ignore[arg-type]
    return arguments(view, GIVEN, folder="/w")


def test_writable_places_are_mounted_last_and_hidden_ones_before_those_shown() -> None:
    words = told(hides=(Mount(path="/h"),), shows=(Mount(path="/h/s"),), writes=(Mount(path="/w"),))
    mounts = [words.index(path) for path in ("/h", "/h/s", "/w")]
    assert mounts == sorted(mounts)


def test_only_root_has_no_user_namespace_and_keeps_three_capabilities() -> None:
    assert "--unshare-user" in told()
    assert "--cap-add" not in told()
    root = told(root=True)
    assert "--unshare-user" not in root
    kept = [root[at + 1] for at, word in enumerate(root) if word == "--cap-add"]
    assert kept == ["CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FOWNER"]


def test_a_hidden_file_takes_one_empty_file_and_a_hidden_folder_ends_read_only() -> None:
    words = told(hides=(Mount(path="/h"), Mount(path="/f", folder=False)))
    assert words[words.index("--ro-bind-data") + 1 :][:2] == ["9", "/f"]
    assert words[words.index("--remount-ro") + 1] == "/h"


def test_the_network_is_the_hosts_unless_none_is_needed() -> None:
    assert "--unshare-net" not in told()
    assert "--unshare-net" in told(network=False)


def test_what_lies_in_another_place_is_left_out() -> None:
    assert outermost([Mount(path="/a/b"), Mount(path="/a"), Mount(path="/a"), Mount(path="/ab")]) == (
        Mount(path="/a"),
        Mount(path="/ab"),
    )


def test_a_path_is_reached_where_nothing_hides_it_or_something_shows_it_again() -> None:
    view = View(hides=(Mount(path="/h"),), shows=(Mount(path="/h/s"),), writes=(Mount(path="/tmp/w"),))
    assert [reaches(view, path) for path in ("/x", "/h", "/h/x", "/h/s/x", "/tmp/x", "/tmp/w/x")] == [
        *(True, False, False, True, False, True)
    ]


def test_landlock_is_told_the_same_as_the_mounts() -> None:
    view = View(hides=(), shows=(), writes=(Mount(path="/w"),))
    assert writable(view)[0] == "/w"
    assert "/home" not in writable(view)
