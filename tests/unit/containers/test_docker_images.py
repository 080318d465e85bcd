"""Images: how they are named, assembled and resolved; without a daemon."""

from __future__ import annotations

import io
import json
import tarfile
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest
from docker.errors import APIError, ImageNotFound

from containers.docker import images
from containers.records import GatewayKind
from wasm.foundation import subprocesses
from wasm.foundation.errors import GatewayError
from wasm.records import sha256_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from containers.docker.server import Daemon

A, B = (f"sha256:{digit * 64}" for digit in "ab")
ID = f"sha256:{'1' * 64}"


class Images:
    """The images of a daemon that has some, and a registry that offers others."""

    def __init__(self, here: dict[str, Any], registry: dict[str, Any]) -> None:
        self.here = here
        self.registry = registry
        self.loaded: list[bytes] = []

    def get(self, reference: str) -> Any:
        """Return one that is here."""
        if reference not in self.here:
            raise ImageNotFound("404")
        return self.here[reference]

    def load(self, archive: bytes) -> None:
        """Keep what was to be loaded."""
        self.loaded.append(archive)

    def pull(self, reference: str, **_: bool) -> Any:
        """Answer as the registry does, step by step."""
        answer = self.registry[reference]
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, str):
            return iter([{"status": "Pulling"}, {"error": answer}])
        self.here[reference] = answer
        return iter([{"status": "Pulling", "id": "1"}, {"status": "Done"}])


def image(*repo_digests: str, architecture: str = "amd64") -> Any:
    attrs = {"Os": "linux", "Architecture": architecture, "RepoDigests": list(repo_digests)}
    return SimpleNamespace(id=ID, attrs=attrs)


@pytest.fixture
def daemon() -> Callable[..., tuple[Daemon, Images]]:
    """Give a function that makes a daemon with some images."""

    def made(here: dict[str, Any] | None = None, **registry: Any) -> tuple[Daemon, Images]:
        images = Images(here or {}, registry.get("registry", {}))
        client = SimpleNamespace(images=images, api=SimpleNamespace(pull=images.pull))
        return cast("Daemon", SimpleNamespace(client=client, platform="linux/amd64")), images

    return made


# --- Pulled -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reference", "recorded", "digest"),
    [
        ("r.example:5000/g:v1", [f"r.example:5000/g@{A}"], A),
        ("r.example:5000/g", [f"r.example:5000/g@{A}"], A),
        (f"r.example:5000/g@{A}", [f"r.example:5000/g@{A}"], A),
        (f"r.example/g:v1@{B}", [f"r.example/g@{A}", f"r.example/g@{B}"], B),
        (f"docker.io/library/g@{A}", [f"g@{A}"], A),
        ("index.docker.io/me/g:v1", [f"me/g@{A}"], A),
        # Another repository's digest says nothing about this reference.
        ("r.example/g:v1", [f"other.example/g@{A}"], ID),
        ("r.example/g:v1", [], ID),
    ],
)
def test_a_reference_is_resolved_to_the_digest_of_its_own_repository(
    daemon: Any, reference: str, recorded: list[str], digest: str
) -> None:
    found = images.pulled(daemon({reference: image(*recorded)})[0], reference)
    assert found == images.GatewayImage(reference, ID, digest, "linux/amd64")


def test_what_is_not_here_is_pulled(daemon: Any) -> None:
    there, _ = daemon(registry={"r.example/g:v1": image(f"r.example/g@{A}")})
    assert images.pulled(there, "r.example/g:v1").digest == A


def test_another_digest_than_the_one_asked_for_is_refused(daemon: Any) -> None:
    reference = f"r.example/g@{A}"
    with pytest.raises(GatewayError) as caught:
        images.pulled(daemon({reference: image(f"r.example/g@{B}")})[0], reference)
    assert caught.value.sentence == (
        f"{reference} came as {B}; expected exactly the digest asked for; do not use this image, "
        "and ask the registry's owner"
    )


def test_t20_an_image_for_another_platform_is_refused_naming_both(daemon: Any) -> None:
    there, _ = daemon({"g:v1": image(architecture="arm64")})
    with pytest.raises(GatewayError) as caught:
        images.pulled(there, "g:v1")
    assert caught.value.sentence == (
        "g:v1 is an image for linux/arm64; expected one for linux/amd64, which is what this Docker "
        "daemon runs; name another with --gateway-image"
    )


@pytest.mark.parametrize(
    "answer", ["manifest unknown", APIError("404", explanation="manifest unknown")]
)
def test_an_image_that_cannot_be_had_is_told_with_the_way_out(daemon: Any, answer: Any) -> None:
    there, _ = daemon(registry={"r.example/g:v1": answer})
    with pytest.raises(GatewayError) as caught:
        images.pulled(there, "r.example/g:v1")
    assert caught.value.sentence == (
        "the gateway image r.example/g:v1 cannot be had: manifest unknown; expected it in this "
        "Docker daemon or in a registry that it reaches; copy it into one, its digest kept "
        "(`skopeo copy --preserve-digests`; `docker save` loses it), and name that with "
        "--gateway-image; --gateway envoy runs stock Envoy instead, which is no release evidence"
    )


def test_only_the_pinned_digest_is_the_pinned_image_whoever_handed_it_on(daemon: Any) -> None:
    pinned = images.HIGRESS_GATEWAY.partition("@")[2]
    assert len(pinned) == len(A)
    for reference, digest, right in (
        (images.HIGRESS_GATEWAY, pinned, True),
        (f"127.0.0.1:5000/mirror@{pinned}", pinned, True),
        ("127.0.0.1:5000/mirror:v2.2.4", pinned, True),
        ("127.0.0.1:5000/mirror:v2.2.4", A, False),
    ):
        repository = reference.rpartition("@")[0] or reference.rpartition(":")[0]
        there, _ = daemon({reference: image(f"{repository}@{digest}")})
        found = images.pulled(there, reference).digest
        assert images.is_pinned(GatewayKind.HIGRESS, found, None) is right
        assert not images.is_pinned(GatewayKind.ENVOY, found, None)


# --- Assembled ----------------------------------------------------------------------------------


def members(archive: bytes) -> dict[str, bytes]:
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        assert {(each.mtime, each.uid, each.gid, each.uname) for each in tar} == {(0, 0, 0, "")}
        files = {each.name: tar.extractfile(each) for each in tar}
        return {name: file.read() for name, file in files.items() if file}


def test_an_image_holds_its_files_and_nothing_of_this_machine(daemon: Any) -> None:
    there, double = daemon()
    name = images.assembled(there, "p/x", {"bin/x": b"program"}, "/bin/x")
    archive = members(double.loaded[0])
    (manifest,) = json.loads(archive.pop("manifest.json"))
    assert manifest["RepoTags"] == [name]
    config = json.loads(archive[manifest["Config"]])
    assert manifest["Config"] == f"{sha256_of(archive[manifest['Config']])}.json"
    assert (config["os"], config["architecture"]) == ("linux", "amd64")
    assert config["config"] == {
        "Entrypoint": ["/bin/x"],
        "Labels": {images.IMAGE_LABEL: "true"},
    }
    assert members(archive["layer.tar"]) == {"bin/x": b"program"}
    assert config["rootfs"]["diff_ids"] == [f"sha256:{sha256_of(archive['layer.tar'])}"]


def test_the_same_files_give_the_same_image_and_others_another(daemon: Any) -> None:
    there, double = daemon()

    def name(**files: bytes) -> str:
        return images.assembled(there, "p/x", files, "/x")

    assert name(a=b"1", b=b"2") == name(b=b"2", a=b"1")
    assert double.loaded[0] == double.loaded[1]
    others = {
        name(a=b"1"),
        name(a=b"1", b=b"3"),
        images.assembled(there, "p/x", {"a": b"1", "b": b"2"}, "/y"),
        images.assembled(there, "p/x", {"a": b"1", "b": b"2"}, "/x", "linux/arm64"),
    }
    assert len(others | {name(a=b"1", b=b"2")}) == 5


def test_an_image_that_is_there_is_not_put_together_again(daemon: Any) -> None:
    there, double = daemon()
    name = images.assembled(there, "p/x", {"x": b"1"}, "/x")
    double.here[name] = image()
    double.loaded.clear()
    assert images.assembled(there, "p/x", {"x": b"1"}, "/x") == name
    assert double.loaded == []


LDD = """\
\tlinux-vdso.so.1 (0x00007ffd31b7e000)
\tlibm.so.6 => /lib/x86_64-linux-gnu/libm.so.6 (0x00007f1c8a000000)
\tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007f1c89c00000)
\t/lib64/ld-linux-x86-64.so.2 (0x00007f1c8a3d3000)
"""


@pytest.fixture
def ldd(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Give a function that says what ldd shows."""

    def shows(text: str, *, succeeded: bool = True) -> None:
        done = SimpleNamespace(stdout=text.encode(), succeeded=succeeded, last_line="no such file")
        monkeypatch.setattr(subprocesses, "run", lambda _argv: done)

    return shows


def test_the_libraries_are_those_that_the_loader_names(ldd: Any, tmp_path: Path) -> None:
    ldd(LDD)
    assert [str(path) for path in images._libraries(tmp_path)] == [
        "/lib/x86_64-linux-gnu/libc.so.6",
        "/lib/x86_64-linux-gnu/libm.so.6",
        "/lib64/ld-linux-x86-64.so.2",
    ]


@pytest.mark.parametrize(
    ("text", "succeeded", "said"),
    [
        ("\tlibx.so.1 => not found\n", True, "libx.so.1 => not found"),
        ("", False, "no such file"),
        ("\tnot a dynamic executable\n", False, "not a dynamic executable"),
    ],
)
def test_a_library_that_is_missing_is_named(
    ldd: Any,
    tmp_path: Path,
    text: str,
    succeeded: bool,  # noqa: FBT001 - a row of the table
    said: str,
) -> None:
    ldd(text, succeeded=succeeded)
    with pytest.raises(GatewayError) as caught:
        images._libraries(tmp_path / "envoy")
    assert caught.value.sentence == (
        f"{tmp_path}/envoy cannot be put into an image: {said}; expected every library that its "
        "loader needs on this machine"
    )
