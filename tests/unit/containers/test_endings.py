"""What a gateway's access log says of a request: which of it is the gateway's own doing."""

from __future__ import annotations

import pytest

from containers.endings import Ending

# As Envoy 1.40 logs them.
THE_PLUGINS = [
    ("-", "via_upstream"),
    ("-", ""),  # a plugin's answer, in place of the upstream's too
    ("-", "the_plugins_own_words"),
    ("NR", "route_not_found"),  # a plugin made a path that begins without a slash
    ("-", "filter_removed_required_response_headers{:status}"),
    ("-", "filter_added_invalid_request_data"),
]
THE_GATEWAYS = [
    ("-", "request_payload_too_large"),
    ("-", "response_payload_too_large"),
    ("-", "request_payload_exceeded_retry_buffer_limit"),
    ("UT", "response_timeout"),
    ("UT", "upstream_per_try_timeout"),
    ("SI", "stream_idle_timeout"),
    ("DT", "duration_timeout"),
    ("-", "request_overall_timeout"),
    ("UH", "no_healthy_upstream"),
    ("NC", "cluster_not_found"),
    ("UF", "upstream_reset_before_response_started{connection_timeout}"),
    ("UC", "upstream_reset_before_response_started{connection_termination}"),
    ("UPE", "upstream_reset_after_response_started{protocol_error}"),
    ("OM", "overload"),
    ("DPE", "http1.codec_error"),
    ("DC", "downstream_remote_disconnect"),
    ("DC", "downstream_local_disconnect(idle timeout)"),
    ("-", "wasm_fail_stream"),
]


@pytest.mark.parametrize(("flags", "details"), THE_PLUGINS)
def test_what_plugin_and_upstream_answered_is_not_the_gateway_s(flags: str, details: str) -> None:
    assert Ending(flags=flags, details=details).own == ""


@pytest.mark.parametrize(("flags", "details"), THE_GATEWAYS)
def test_what_the_gateway_did_of_itself_is_named(flags: str, details: str) -> None:
    own = Ending(flags=flags, details=details).own
    assert own.split(", ")[0] == details
    assert own.endswith(f", flags {flags}" if flags != "-" else details)


@pytest.mark.parametrize("flags", ["UC", "UF,URX", "UT"])
def test_a_plugin_that_answers_in_place_of_the_gateway_leaves_its_flags(flags: str) -> None:
    assert Ending(flags=flags, details="").own == f"flags {flags}"
