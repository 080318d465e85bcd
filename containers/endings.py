"""How the gateway says that a request ended, and which of that is its own doing. Pure.

Envoy answers in a plugin's place when a limit, a time-out or a connection leaves it no choice. Its
access log has that as response flags and response code details; what a plugin answers has the
details that the plugin gives, mostly none.
"""

from __future__ import annotations

import re

import msgspec

# Envoy's response code details (envoy/stream_info/stream_info.h, ResponseCodeDetailValues, 1.40)
# that say what gateway, client or mock did. Not here: what follows from what a plugin did to the
# request or the response. A path without a route (ours takes every path, and a case's begins with
# a slash), required headers removed, data added where none may be.
_OWN_DETAILS = re.compile(
    # Limits.
    r"request_payload_too_large|response_payload_too_large"
    r"|request_payload_exceeded_retry_buffer_limit|overload.*"
    # Time.
    r"|stream_idle_timeout|max_duration_timeout|duration_timeout|request_overall_timeout"
    r"|request_header_timeout|response_timeout|upstream_response_timeout|upstream_per_try_timeout"
    r"|upstream_per_try_idle_timeout|upstream_max_stream_duration_reached"
    # The mock could not be reached, or broke off.
    r"|no_healthy_upstream|cluster_not_found|maintenance_mode"
    r"|upstream_reset_(?:before|after)_response_started\{.*"
    # The client went, or what it sent was refused before any plugin saw it.
    r"|downstream_(?:remote|local)_disconnect.*|http[123]\..*|low_version|missing_host_header"
    r"|missing_path_rejected|absolute_path_rejected|path_normalization_failed|upgrade_failed"
    r"|request_headers_failed_strict_check|filter_chain_not_found|route_configuration_not_found"
    # The plugin's VM is gone (extensions/common/wasm/context.cc, failStream).
    r"|wasm_fail_stream"
)
# A plugin may answer in place of the gateway's own answer, whose flags then stand alone. NR goes
# with `route_not_found`; every other flag has a cause in the list above.
_NO_FLAGS = frozenset({"-", "", "NR"})


class Ending(msgspec.Struct, frozen=True, kw_only=True):
    """A request's end, as the gateway's access log has it.

    Attributes:
        flags: Envoy's response flags, ``-`` for none.
        details: Its response code details, or those that a plugin gave.
    """

    flags: str
    details: str

    @property
    def own(self) -> str:
        """What the gateway did of itself, in its own words; empty when it did nothing."""
        words = [self.details] if _OWN_DETAILS.fullmatch(self.details) else []
        words += [f"flags {self.flags}"] if self.flags not in _NO_FLAGS else []
        return ", ".join(words)
