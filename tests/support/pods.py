"""What a pod does not keep on a cluster whose plugin enforces no policy, and why: each is seen not to be kept."""

from __future__ import annotations

_FOLDER = "a pod does not see this machine's folders: refused"
_GONE = "a private folder without `storage` ends with its pod: said by the clause `workspace`"
INET = 'inet: "refuse" leaves no internet socket, on the loopback neither'
_HANDED = (
    "a host command works in a folder of this machine, and a pod's private one is not here: refused, or in an empty one"
)

PROMISES = {
    "a_background_server_is_reached_from_another_call": INET,
    "a_private_workspace_outlives_its_sandbox": _GONE,
    "a_changed_spec_means_a_new_sandbox": _GONE,
    "the_agent_cannot_keep_the_next_sandbox_from_opening": "the folder is the node's, so that the agent cannot take it from itself either",
    "a_readable_workspace_is_seen_and_not_changed": _FOLDER,
    "a_writable_workspace_is_the_agents_own": _FOLDER,
    "a_workspace_that_was_made_anew_is_seen": _FOLDER,
    "binds_are_where_they_were_put": _FOLDER,
    "the_host_never_sees_what_is_under_review": "the folder itself is the node's: its own mode and times are not the agent's to set",
    "a_listed_place_is_reached_without_settings_and_no_other": INET,
    "two_hundred_connections_at_once_are_each_answered": INET,
    "an_empty_list_and_the_internet_reach_nothing_of_the_hosts": INET,
}
# Attacks that cannot be carried out there: nothing is shown to hold.
CLAIMS = {
    "cannot_find_what_an_agent_left_in_another_home": _GONE,
    "cannot_have_the_kernel_speak_a_protocol_on_its_socket": INET,
    "cannot_meet_another_sandbox_in_shared_memory_or_sockets": INET,
    "cannot_be_heard_on_the_host": INET,
    "cannot_send_a_listed_place_a_request_for_another_host": INET,
    "cannot_have_a_key_sent_anywhere_but_to_its_host": INET,
    "cannot_have_a_key_sent_over_tls_anywhere_but_to_its_host": INET,
    "cannot_have_a_key_given_to_a_server_that_is_not_its_host": INET,
    "cannot_have_its_own_authority_vouch_for_another_host": INET,
    "cannot_swap_the_folder_that_was_agreed_to": _HANDED,
    "cannot_write_beyond_its_folder_by_a_command_that_left": _HANDED,
    "cannot_reach_a_socket_of_the_host_by_a_command_that_left": _HANDED,
    "cannot_read_crabpots_own_files_or_keys_by_a_command_that_left": _HANDED,
    "cannot_see_or_signal_a_process_of_the_host_by_a_command_that_left": _HANDED,
    "cannot_have_another_build_run_by_what_was_allowed_for_longer": _HANDED,
    "cannot_have_an_apply_follow_a_link": _HANDED,
    "cannot_have_an_apply_bring_what_the_host_would_run": _HANDED,
}
