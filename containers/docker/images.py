"""The images of a testbed: two assembled here from nothing, one pulled by digest.

What is assembled has no shell and no package manager: Envoy with the libraries that its loader
names, or the upstream's one static binary. Images are named by a digest of what is in them, so
they are assembled once, and the same input gives the same name.
"""

from __future__ import annotations

import io
import json
import re
import tarfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from containers.records import GatewayKind
from wasm.foundation import subprocesses
from wasm.foundation.errors import GatewayError
from wasm.records import sha256_of

if TYPE_CHECKING:
    import docker
    from docker.models.images import Image

    from containers.docker.server import Daemon
    from containers.records import AdapterFacts

HIGRESS_GATEWAY = (
    "higress-registry.cn-hangzhou.cr.aliyuncs.com/higress/gateway"
    "@sha256:3dbd609df5db3fca61653eafe0e2310705e485190c4f8cd02d9aab8f07dcf329"
)
_PINNED = HIGRESS_GATEWAY.partition("@")[2]
IMAGE_LABEL = "gateway-proof.image"
_ENVOY = "gateway-proof/envoy"
_UPSTREAM = "gateway-proof/upstream"
_PROGRESS_S = 5.0
_LIBRARY = re.compile(r"(?:=>\s+)?(/\S+)\s+\(0x[0-9a-f]+\)")
_DIGEST = re.compile(r"@(sha256:[0-9a-f]{64})$")
_LONG_AGO = "1970-01-01T00:00:00Z"


@dataclass(frozen=True)
class GatewayImage:
    """An image that a gateway is started from.

    Attributes:
        reference: As it was asked for.
        name: What containers are created from: the image's id.
        digest: As it was resolved: the registry's digest, else the image's own id.
        platform: What it was built for, such as ``linux/amd64``.
    """

    reference: str
    name: str
    digest: str
    platform: str


def is_pinned(kind: GatewayKind, digest: str | None, adapter: AdapterFacts | None) -> bool:
    """Whether a gateway was Higress' pinned image with the module as built: release evidence.

    The image's digest says so, whoever handed it on.
    """
    return kind is GatewayKind.HIGRESS and digest == _PINNED and adapter is None


def upstream_image(daemon: Daemon, program: Path) -> str:
    """Return the name of the upstream's image, assembled if it is not there yet."""
    files = {"upstream": program.read_bytes()}
    return assembled(daemon, _UPSTREAM, files, "/upstream")


def envoy_image(daemon: Daemon, program: Path) -> GatewayImage:
    """Return the image of stock Envoy, assembled if it is not there yet.

    Raises:
        GatewayError: The loader does not find a library of it.
    """
    libraries = _libraries(program)
    files = {str(path).lstrip("/"): path.read_bytes() for path in libraries}
    files["usr/local/bin/envoy"] = program.read_bytes()
    name = assembled(daemon, _ENVOY, files, "/usr/local/bin/envoy")
    return _gateway(daemon, name, daemon.client.images.get(name))


def pulled(daemon: Daemon, reference: str) -> GatewayImage:
    """Return a gateway's image by its reference, pulled if it is not there yet.

    A tag is resolved to the digest that the registry gives for it, and a digest that was asked
    for must be the one that comes.

    Raises:
        GatewayError: It cannot be had, is another digest's, or is for another platform.
    """
    from docker.errors import DockerException, ImageNotFound  # noqa: PLC0415 - see docker_daemon

    try:
        try:
            image = daemon.client.images.get(reference)
        except ImageNotFound:
            _pull(daemon.client, reference)
            image = daemon.client.images.get(reference)
    except (DockerException, OSError) as error:
        raise _not_had(reference, error) from error
    found = _gateway(daemon, reference, image)
    asked = _DIGEST.search(reference)
    if asked and found.digest != asked[1]:
        raise GatewayError(
            f"{reference} came as {found.digest}; expected exactly the digest asked for; do not "
            "use this image, and ask the registry's owner"
        )
    return found


def _pull(client: docker.DockerClient, reference: str) -> None:
    """Pull an image, telling how far it is; the time limit is for each step of it, not for all.

    Raises:
        OSError: With what the registry or the daemon said.
    """
    said = 0.0
    for step in client.api.pull(reference, stream=True, decode=True):
        if "error" in step:
            raise OSError(step["error"])
        if time.monotonic() - said > _PROGRESS_S:
            said = time.monotonic()
            shown = f"{step.get('id', '')} {step.get('status', '')} {step.get('progress', '')}"
            print(f"pulling {reference}: {shown}".rstrip(), flush=True)


def _gateway(daemon: Daemon, reference: str, image: Image) -> GatewayImage:
    platform = f"{image.attrs.get('Os')}/{image.attrs.get('Architecture')}"
    if platform != daemon.platform:
        raise GatewayError(
            f"{reference} is an image for {platform}; expected one for {daemon.platform}, which is "
            "what this Docker daemon runs; name another with --gateway-image"
        )
    digests = sorted(
        digest.partition("@")[2]
        for digest in image.attrs.get("RepoDigests") or []
        if _repository(digest) == _repository(reference)
    )
    # One image can have several: of itself, and of a list of images that it is in.
    asked = [digest for digest in digests if reference.endswith(digest)]
    digest = (asked or digests or [str(image.id)])[0]
    return GatewayImage(reference, str(image.id), digest, platform)


def _repository(reference: str) -> str:
    """Return a reference without tag and digest, in the short form that Docker records."""
    name = re.sub(r"[@:][^/]*$", "", reference)
    return re.sub(r"^(index\.)?docker\.io/", "", name).removeprefix("library/")


def _not_had(reference: str, error: Exception) -> GatewayError:
    said = str(getattr(error, "explanation", "") or error).strip()
    return GatewayError(
        f"the gateway image {reference} cannot be had: {said}; expected it in this Docker daemon "
        "or in a registry that it reaches; copy it into one, its digest kept (`skopeo copy "
        "--preserve-digests`; `docker save` loses it), and name that with --gateway-image; "
        "--gateway envoy runs stock Envoy instead, which is no release evidence"
    )


def _libraries(program: Path) -> list[Path]:
    shown = subprocesses.run(["ldd", str(program)])
    lines = shown.stdout.decode()
    if not shown.succeeded or "not found" in lines:
        raise GatewayError(
            f"{program} cannot be put into an image: {lines.strip() or shown.last_line}; expected "
            "every library that its loader needs on this machine"
        )
    return sorted({Path(found) for found in _LIBRARY.findall(lines)})


def assembled(
    daemon: Daemon,
    repository: str,
    files: dict[str, bytes],
    entrypoint: str,
    platform: str | None = None,
) -> str:
    """Return the name of an image of some files, put together unless the same one is there.

    It is loaded, not imported: the same files give the same image id, on any machine, and two runs
    at once leave one image rather than one with a name and one without.

    Args:
        daemon: Where it is to be.
        repository: Its name; the tag is a digest of what is in it.
        files: Path in the image -> content.
        entrypoint: The program that it runs.
        platform: What it is for, such as ``linux/arm64``; None for what the daemon runs.
    """
    from docker.errors import ImageNotFound  # noqa: PLC0415 - see docker_daemon

    platform = platform or daemon.platform
    content = "\n".join(f"{path} {sha256_of(data)}" for path, data in sorted(files.items()))
    tag = sha256_of(f"{content}\n{entrypoint}\n{platform}".encode())[:24]
    name = f"{repository}:{tag}"
    try:
        daemon.client.images.get(name)
    except ImageNotFound:
        daemon.client.images.load(_archive(name, _tar(files), entrypoint, platform))
    return name


def _archive(name: str, layer: bytes, entrypoint: str, platform: str) -> bytes:
    """Return an image as ``docker load`` takes it, with no trace of this machine or hour in it."""
    system, _, architecture = platform.partition("/")
    config = json.dumps(
        {
            "architecture": architecture,
            "os": system,
            "created": _LONG_AGO,
            "config": {"Entrypoint": [entrypoint], "Labels": {IMAGE_LABEL: "true"}},
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{sha256_of(layer)}"]},
            "history": [{"created": _LONG_AGO, "created_by": "gateway-proof"}],
        },
        sort_keys=True,
    ).encode()
    named = f"{sha256_of(config)}.json"
    manifest = [{"Config": named, "RepoTags": [name], "Layers": ["layer.tar"]}]
    return _tar({named: config, "layer.tar": layer, "manifest.json": json.dumps(manifest).encode()})


def _tar(files: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for path, data in sorted(files.items()):
            entry = tarfile.TarInfo(path)
            entry.size = len(data)
            entry.mode = 0o755
            tar.addfile(entry, io.BytesIO(data))
    return buffer.getvalue()
