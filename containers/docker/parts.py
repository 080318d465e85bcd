"""The containers and networks of a testbed, as testcontainers has them, held to our rules.

Each part: no capability, no new privileges, a read-only root, a user that is not root, bounds on
memory and processes, files copied in (a remote daemon knows no bind mounts), and the labels by
which a sweep finds it. Always used with ``with``: a bare ``start()`` leaks when its wait fails.
"""

from __future__ import annotations

import contextlib
import io
import signal
import tarfile
from typing import TYPE_CHECKING, Any, Self

from docker.errors import APIError, DockerException, NotFound
from docker.types import LogConfig, Mount
from testcontainers.core.container import DockerContainer
from testcontainers.core.network import Network

from containers.docker.server import API_TIMEOUT_S
from wasm.foundation import owners
from wasm.foundation.errors import GatewayError

if TYPE_CHECKING:
    from types import TracebackType

    from testcontainers.core.transferable import Transferable

FILES = "/proof"
RUN_LABEL = "gateway-proof.run"
OWNER_LABEL = "gateway-proof.owner"
_NOBODY = 65532
_MEMORY = "2g"
_PROCESSES = 256
_LAST_LINES = 12
# Else the daemon's own default applies, which may drop what is old, or keep nothing readable.
_WHOLE_LOG = LogConfig(type=LogConfig.types.JSON)
# A program that a signal ends has this much and the signal's number as its exit status.
_BY_SIGNAL = 128


def labels(run: str) -> dict[str, str]:
    """Return the labels of everything that belongs to a run."""
    return {RUN_LABEL: run, OWNER_LABEL: str(owners.here())}


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
        self.argv = [*([entrypoint] if entrypoint else []), *command]
        if network is not None:
            self.with_network(network).with_network_aliases(role)
        self.with_name(f"gateway-proof-{run}-{role}")
        self.with_command(command)
        self.with_tmpfs_mount("/tmp", "size=64m")  # noqa: S108 - in the container, whose root is read-only
        rules: dict[str, Any] = {
            "cap_drop": ["ALL"],
            "security_opt": ["no-new-privileges:true"],
            "read_only": True,
            "user": f"{_NOBODY}:{_NOBODY}",
            "mem_limit": _MEMORY,
            "pids_limit": _PROCESSES,
            "log_config": _WHOLE_LOG,
        }
        self.with_kwargs(labels=labels(run), entrypoint=entrypoint, **(rules | settings))

    def with_volume(self) -> Self:
        """Give it a volume at ``/proof``, which goes when nothing mounts it any more."""
        mount = Mount(target=FILES, source="", type="volume", labels=self._kwargs["labels"])
        self._kwargs["mounts"] = [mount]
        return self

    def with_files(self, files: dict[str, bytes]) -> Self:
        """Copy files into its volume, named as seen from ``/proof``; the root is read-only.

        A folder that is named with them belongs to the parts' user, who may write there.
        """
        archive = io.BytesIO()
        with tarfile.open(fileobj=archive, mode="w") as tar:
            for folder in dict.fromkeys(name.rpartition("/")[0] for name in files):
                if folder:
                    entry = tarfile.TarInfo(folder)
                    entry.type, entry.mode = tarfile.DIRTYPE, 0o755
                    entry.uid = entry.gid = _NOBODY
                    tar.addfile(entry)
            for name, content in files.items():
                entry = tarfile.TarInfo(name)
                entry.size, entry.mode = len(content), 0o644
                tar.addfile(entry, io.BytesIO(content))
        return self.with_copy_into_container(archive.getvalue(), FILES)

    def _transfer_into_container(
        self,
        transferable: Transferable,
        destination_in_container: str,
        mode: int,  # noqa: ARG002 - testcontainers'; each file in the archive has its own
    ) -> None:
        # One archive, into the volume: testcontainers makes one a file, and writes each to /, which
        # is read-only.
        self.get_wrapped_container().put_archive(destination_in_container, transferable)

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
        """Return its IP address in a network.

        Raises:
            GatewayError: It has none, which is so when the container has ended.
        """
        self.reload()
        networks = self.get_wrapped_container().attrs["NetworkSettings"]["Networks"]
        address = networks.get(network.name, {}).get("IPAddress")
        if not address:
            raise GatewayError(
                f"the {self.role} has no address in {network.name}; expected Docker to give it "
                "one; see the daemon's log"
            )
        return str(address)

    def published(self) -> dict[int, int]:
        """Return container port -> port on 127.0.0.1.

        Raises:
            GatewayError: One is not published, which is so when the container has ended.
        """
        self.reload()
        ports = self.get_wrapped_container().attrs["NetworkSettings"]["Ports"]
        missing = [port for port in self.ports if not ports.get(port)]
        if missing:
            raise GatewayError(
                f"the {self.role}'s ports {', '.join(missing)} are not published; expected Docker "
                "to choose one on 127.0.0.1 for each; see the daemon's log"
            )
        return {int(port.partition("/")[0]): int(ports[port][0]["HostPort"]) for port in self.ports}

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
        return f"exited with status {_status(state['ExitCode'])}"

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
        try:
            super().stop(force, delete_volume)
        except NotFound:
            self.get_docker_client().client.close()


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
        """Remove it, whatever is still attached to it."""
        try:
            self._force_out()
            self.remove()
        except NotFound:
            pass
        except APIError as error:
            raise GatewayError(
                f"the network {self.name} could not be removed ({error.explanation}); expected "
                "nothing to be left; run `nox -s clean`"
            ) from error
        finally:
            self._docker.client.close()

    def _force_out(self) -> None:
        """Take out containers that are still attached (moby 17555)."""
        network = self._unwrap_network
        network.reload()
        for container in network.attrs.get("Containers") or {}:
            with contextlib.suppress(NotFound):
                network.disconnect(container, force=True)


def _status(code: int) -> str:
    """Return an exit status as it is told, with the signal that it stands for."""
    with contextlib.suppress(ValueError):
        return f"{code} ({signal.Signals(code - _BY_SIGNAL).name})"
    return str(code)
