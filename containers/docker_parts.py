"""The containers and networks of a testbed, as testcontainers has them, held to our rules.

Each part: no capability, no new privileges, a read-only root, a user that is not root, bounds on
memory and processes, files copied in (a remote daemon knows no bind mounts), and the labels by
which a sweep finds it. Always used with ``with``: a bare ``start()`` leaks when its wait fails.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, Self

from docker.errors import APIError, DockerException, NotFound
from docker.types import Mount
from testcontainers.core.container import DockerContainer
from testcontainers.core.network import Network
from testcontainers.core.transferable import build_transfer_tar

from containers.docker_daemon import API_TIMEOUT_S
from wasm import ownership
from wasm.errors import GatewayError

if TYPE_CHECKING:
    from types import TracebackType

    from testcontainers.core.transferable import Transferable

FILES = "/proof"
RUN_LABEL = "gateway-proof.run"
OWNER_LABEL = "gateway-proof.owner"
_NOBODY = "65532:65532"
_MEMORY = "2g"
_PROCESSES = 256
_LAST_LINES = 12


def labels(run: str) -> dict[str, str]:
    """Return the labels of everything that belongs to a run."""
    return {RUN_LABEL: run, OWNER_LABEL: str(ownership.here())}


class Part(DockerContainer):
    """One container of a testbed.

    Args:
        role: What it is in messages and logs.
        run: The run that it belongs to.
        image: What it is created from; taken as it stands, since the prefix that testcontainers
            puts before an image's name would go before a digest's registry too.
        network: Where it lives, and its name there.
        command: The program's arguments.
        entrypoint: The program, where it is not the image's own.
    """

    def __init__(  # noqa: PLR0913 - what a container needs, each by its own name
        self,
        role: str,
        run: str,
        *,
        image: str,
        network: OwnNetwork | None,
        command: list[str],
        entrypoint: str | None = None,
        **settings: Any,  # noqa: ANN401 - docker's own
    ) -> None:
        super().__init__(image, docker_client_kw={"timeout": API_TIMEOUT_S})
        self.image = image
        self.role = role
        if network is not None:
            self.with_network(network).with_network_aliases(role)
        self.with_name(f"gateway-proof-{run}-{role}")
        self.with_command(command)
        self.with_tmpfs_mount("/tmp", "size=64m")  # noqa: S108 - in the container, whose root is read-only
        rules: dict[str, Any] = {
            "cap_drop": ["ALL"],
            "security_opt": ["no-new-privileges:true"],
            "read_only": True,
            "user": _NOBODY,
            "mem_limit": _MEMORY,
            "pids_limit": _PROCESSES,
        }
        self.with_kwargs(labels=labels(run), entrypoint=entrypoint, **(rules | settings))

    def with_files(self, files: dict[str, bytes]) -> Self:
        """Copy files into ``/proof``: a volume of its own, since the root is read-only."""
        mount = Mount(target=FILES, source="", type="volume", labels=self._kwargs["labels"])
        self._kwargs["mounts"] = [mount]
        for name, content in files.items():
            self.with_copy_into_container(content, f"{FILES}/{name}", mode=0o644)
        return self

    def _transfer_into_container(
        self, transferable: Transferable, destination_in_container: str, mode: int
    ) -> None:
        # As testcontainers does it, but into the volume: it would write to /, which is read-only.
        folder, _, name = destination_in_container.rpartition("/")
        data = build_transfer_tar(transferable, name, mode)
        if not self.get_wrapped_container().put_archive(folder, data):
            raise OSError(f"{destination_in_container} could not be copied into the {self.role}")

    def with_published(self, *ports: int) -> Self:
        """Publish ports on this machine's 127.0.0.1; Docker chooses the numbers."""
        for port in ports:
            # docker-py takes an address alone for "any port there"; testcontainers' type does not.
            self.ports[f"{port}/tcp"] = ("127.0.0.1",)  # type: ignore[assignment]
        return self

    @property
    def id(self) -> str:
        """The container's id."""
        return self.get_container_id()

    def address(self, network: OwnNetwork) -> str:
        """Return its IP address in a network."""
        self.reload()
        networks = self.get_wrapped_container().attrs["NetworkSettings"]["Networks"]
        return str(networks[network.name]["IPAddress"])

    def published(self) -> dict[int, int]:
        """Return container port -> port on 127.0.0.1."""
        self.reload()
        ports = self.get_wrapped_container().attrs["NetworkSettings"]["Ports"]
        return {
            int(port.partition("/")[0]): int(bound[0]["HostPort"])
            for port, bound in ports.items()
            if bound
        }

    @property
    def end(self) -> str | None:
        """How it ended, in words, or None while it runs."""
        try:
            self.reload()
        except NotFound:
            return "was removed"
        except (DockerException, OSError) as error:
            return f"cannot be looked at any more: the Docker daemon does not answer ({error})"
        state = self.get_wrapped_container().attrs["State"]
        if state["Running"] or state["Status"] == "created":
            return None
        if state.get("OOMKilled"):
            return f"was killed for its memory (more than {_MEMORY})"
        return f"exited with status {state['ExitCode']}"

    def streams(self) -> tuple[bytes, bytes]:
        """Return all that it has written to stdout and to stderr."""
        return self.get_logs()

    def last_lines(self) -> str:
        """Return the end of what it logged."""
        with contextlib.suppress(DockerException, OSError):
            text = self.get_wrapped_container().logs(tail=_LAST_LINES)
            return str(text.decode("utf-8", "replace")).strip()
        return ""

    def quit(self, patience_s: float) -> None:
        """Stop it: SIGTERM, then SIGKILL after some seconds; its logs can still be read."""
        with contextlib.suppress(NotFound):
            self.get_wrapped_container().stop(timeout=int(patience_s))

    def stop(self, force: bool = True, delete_volume: bool = True) -> None:  # noqa: FBT001, FBT002 - testcontainers'
        """Remove it and its volume; one that is gone already is as good as removed."""
        with contextlib.suppress(NotFound):
            super().stop(force, delete_volume)


class OwnNetwork(Network):
    """A network of one run; removed with what is still attached to it."""

    def __init__(self, run: str, *, internal: bool) -> None:
        super().__init__(
            docker_client_kw={"timeout": API_TIMEOUT_S},
            docker_network_kw={"labels": labels(run), "internal": internal, "driver": "bridge"},
        )
        self.name = f"gateway-proof-{run}-{'inside' if internal else 'outside'}"

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> None:
        """Remove it; if that fails while an error is on its way, that error stays the one told."""
        try:
            self._force_out()
            self.remove()
        except NotFound:
            pass
        except (APIError, OSError) as error:
            if exc_val is None:
                raise GatewayError(
                    f"the network {self.name} could not be removed ({error}); expected nothing to "
                    "be left; run `nox -s clean`"
                ) from error
            exc_val.add_note(f"the network {self.name} could not be removed: {error}")
        finally:
            self._docker.client.close()

    def _force_out(self) -> None:
        """Take out containers that are still attached (moby 17555)."""
        network = self._unwrap_network
        network.reload()
        for container in network.attrs.get("Containers") or {}:
            with contextlib.suppress(NotFound):
                network.disconnect(container, force=True)
