"""A gateway image by its digest or tag, from a registry of our own on this machine."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import shutil
import socket
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from docker.errors import ImageNotFound

from containers import envoy
from containers.docker import engine as docker_engine
from containers.docker import images
from containers.records import GatewayKind
from tests.integration.docker_traces import traces
from tests.integration.running import until
from wasm.foundation.errors import GatewayError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from containers.docker.server import Daemon
    from containers.testbed import Plan

    Opened = Callable[[str], Any]

pytestmark = [pytest.mark.docker, pytest.mark.timeout(120)]


@dataclass(frozen=True)
class Registry:
    """A registry: where it is, where it keeps its content, and the process that it is."""

    address: str
    content: Path
    process: subprocess.Popen[bytes]

    @property
    def repository(self) -> str:
        """The one repository that is used here."""
        return f"{self.address}/mirror/gateway"


@contextlib.contextmanager
def serving(folder: Path) -> Iterator[Registry]:
    """Run Debian's registry on a free port of this machine, for as long as the context lasts.

    Docker takes a registry on 127.0.0.0/8 without TLS.
    """
    program = shutil.which("docker-registry")
    if program is None:
        said = "there is no docker-registry here; install Debian's package of that name"
        (pytest.fail if os.environ.get("CI") else pytest.skip)(said)
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    config = folder / "registry.yml"
    config.write_text(
        f"version: 0.1\nstorage: {{filesystem: {{rootdirectory: {folder}/content}}}}\n"
        f"http: {{addr: {address}}}\n"
    )
    with (folder / "registry.log").open("wb") as log:
        process = subprocess.Popen([program, "serve", config], stdout=log, stderr=log)
    try:
        until(lambda: _answers(address))
        yield Registry(address, folder / "content", process)
    finally:
        process.terminate()
        process.wait()


def _answers(address: str) -> bool:
    with contextlib.suppress(httpx.HTTPError):
        return httpx.get(f"http://{address}/v2/", trust_env=False).is_success
    return False


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    with serving(tmp_path_factory.mktemp("registry")) as found:
        yield found


@pytest.fixture
def push(daemon: Daemon) -> Iterator[Callable[[str, str], str]]:
    """Give a function that pushes an image as REPOSITORY:TAG, so that it is in the registry alone.

    It returns the digest that the registry gives for it.
    """
    images = daemon.client.images
    repositories = set()

    def pushed(image: str, name: str) -> str:
        repository, _, tag = name.rpartition(":")
        repositories.add(repository)
        assert images.get(image).tag(repository, tag)
        steps = list(images.push(repository, tag, stream=True, decode=True))
        assert not [step for step in steps if "error" in step], steps
        forget(repository)
        return next(str(step["aux"]["Digest"]) for step in steps if "aux" in step)

    def forget(repository: str) -> None:
        for image in images.list():
            for name in [*image.tags, *image.attrs["RepoDigests"]]:
                if re.split(r"[:@](?!.*/)", name, maxsplit=1)[0] == repository:
                    # Its digest goes with its last tag.
                    with contextlib.suppress(ImageNotFound):
                        images.remove(name, force=True)

    yield pushed
    for repository in repositories:
        forget(repository)


@pytest.fixture
def opened(plan: Callable[..., Plan], daemon: Daemon, tmp_path: Path) -> Opened:
    """Give a function that opens a testbed from a gateway image, and returns what it says of it."""

    def gateway(image: str) -> Any:
        folder = tmp_path / f"run-{secrets.token_hex(4)}"
        try:
            planned = plan(folder, gateway=GatewayKind.HIGRESS, gateway_image=image)
            with docker_engine.opened(planned) as testbed:
                return testbed.facts.gateway
        finally:
            assert traces(daemon.client, folder) == []

    return gateway


def refusal(opened: Opened, image: str) -> str:
    with pytest.raises(GatewayError) as caught:
        opened(image)
    return caught.value.sentence


def test_an_image_is_pulled_by_its_digest_and_run_and_is_no_release_evidence(
    registry: Registry, push: Any, fake_gateway: Any, opened: Opened, daemon: Daemon
) -> None:
    digest = push(fake_gateway("forward"), f"{registry.repository}:v1")
    reference = f"{registry.repository}@{digest}"
    gateway = opened(reference)
    assert (gateway.kind, gateway.image, gateway.digest) == ("higress", reference, digest)
    assert gateway.platform == daemon.platform
    assert gateway.release_evidence is False


def test_a_tag_is_resolved_to_the_registrys_digest(
    registry: Registry, push: Any, fake_gateway: Any, opened: Opened
) -> None:
    digest = push(fake_gateway("forward"), f"{registry.repository}:v1")
    gateway = opened(f"{registry.repository}:v1")
    assert (gateway.image, gateway.digest) == (f"{registry.repository}:v1", digest)
    assert re.fullmatch(r"sha256:[0-9a-f]{64}", gateway.digest)


def test_the_pinned_digest_from_a_mirror_is_the_pinned_image(
    registry: Registry,
    push: Any,
    fake_gateway: Any,
    opened: Opened,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    digest = push(fake_gateway("forward"), f"{registry.repository}:v1")
    monkeypatch.setattr(images, "_PINNED", digest)
    assert opened(f"{registry.repository}@{digest}").release_evidence is True


@pytest.mark.parametrize("name", [":nowhere", f"@sha256:{'0' * 64}"])
def test_what_the_registry_does_not_have_is_told_in_its_words(
    registry: Registry, push: Any, fake_gateway: Any, opened: Opened, name: str
) -> None:
    push(fake_gateway("forward"), f"{registry.repository}:v1")
    sentence = refusal(opened, registry.repository + name)
    assert sentence.startswith(
        f"the gateway image {registry.repository}{name} cannot be had: manifest for "
        f"{registry.repository}{name} not found: manifest unknown"
    )
    assert "--gateway-image" in sentence


def test_a_registry_whose_content_is_not_what_its_digest_says_is_refused(
    registry: Registry, push: Any, fake_gateway: Any, opened: Opened
) -> None:
    digest = push(fake_gateway("stay mute"), f"{registry.repository}:tampered")
    other = push(fake_gateway("exit at once"), f"{registry.repository}:other")
    blobs = registry.content / "docker/registry/v2/blobs/sha256"

    def manifest(of: str) -> Path:
        return blobs / of[7:9] / of[7:] / "data"

    manifest(digest).write_bytes(manifest(other).read_bytes())
    reference = f"{registry.repository}@{digest}"
    assert refusal(opened, reference).startswith(
        f"the gateway image {reference} cannot be had: manifest verification failed for digest "
        f"{digest}; "
    )


def test_t20_an_image_of_another_platform_is_refused_naming_both(
    registry: Registry, push: Any, fake_gateway: Any, opened: Opened, daemon: Daemon
) -> None:
    image = fake_gateway("forward", platform="linux/s390x")
    digest = push(image, f"{registry.repository}:s390x")
    assert refusal(opened, f"{registry.repository}@{digest}") == (
        f"{registry.repository}@{digest} is an image for linux/s390x; expected one for "
        f"{daemon.platform}, which is what this Docker daemon runs; name another with "
        "--gateway-image"
    )


def test_a_registry_that_is_down_is_told_and_what_was_pulled_before_needs_none(
    tmp_path: Path, push: Any, fake_gateway: Any, opened: Opened
) -> None:
    with serving(tmp_path) as registry:
        digest = push(fake_gateway("forward"), f"{registry.repository}:v1")
        assert opened(f"{registry.repository}@{digest}").digest == digest
    assert opened(f"{registry.repository}@{digest}").digest == digest
    sentence = refusal(opened, f"{registry.repository}:v1")
    assert sentence.startswith(f"the gateway image {registry.repository}:v1 cannot be had: ")
    assert "connection refused" in sentence


def test_stock_envoy_from_a_registry_is_run_as_higress_and_says_itself_what_it_lacks(
    registry: Registry,
    push: Any,
    daemon: Daemon,
    plan: Callable[..., Plan],
    tmp_path: Path,
) -> None:
    """It gets the module unmodified, with no adapter, which stock Envoy does not take."""
    image = images.envoy_image(daemon, envoy.program(None)).reference
    digest = push(image, f"{registry.repository}:envoy")
    reference = f"{registry.repository}@{digest}"
    planned = plan(tmp_path, gateway=GatewayKind.HIGRESS, gateway_image=reference)
    with pytest.raises(GatewayError) as caught, docker_engine.opened(planned):
        pytest.fail("it opened")
    assert "Missing or unknown Proxy-Wasm ABI version" in caught.value.sentence
    assert traces(daemon.client, tmp_path) == []
