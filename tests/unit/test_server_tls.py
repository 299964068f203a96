"""Certificates that are replaced while a server runs: the new one, or the last that was whole."""

import logging
import os
import ssl
import subprocess
from pathlib import Path

import pytest

from holdfast.errors import InvalidValue
from holdfast.server.config import configure
from holdfast.server.tls import Certificates, load_certificate
from holdfast.testing.certificates import make_certificate
from holdfast.testing.servers import COMMAND


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    certificate, key = tmp_path / "certificate.pem", tmp_path / "key.pem"
    make_certificate(certificate, key, name="first")
    return certificate, key


def shown(context: ssl.SSLContext, *, name: str | None = None) -> str:
    """Returns whom a client meets: the certificate that it is shown."""
    ours = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    ours.check_hostname, ours.verify_mode = False, ssl.CERT_NONE
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = ours.wrap_bio(back, there, server_hostname=name)
    server = context.wrap_bio(there, back, server_side=True)
    for _ in range(4):
        for side in (client, server):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
    return ssl.DER_cert_to_PEM_cert(client.getpeercert(binary_form=True) or b"")


def test_a_new_certificate_is_shown_to_whoever_comes_next(files) -> None:
    certificate, key = files
    held = Certificates(certificate, key)
    first = certificate.read_text()
    assert shown(held.context) == shown(held.context, name="any.example") == first
    make_certificate(certificate, key, name="second")
    held.renew()
    assert shown(held.context) == shown(held.context, name="any.example") == certificate.read_text()
    assert certificate.read_text() != first


def test_a_certificate_without_its_key_changes_nothing_until_the_key_is_there(
    files, tmp_path: Path, caplog
) -> None:
    certificate, key = files
    held, first = Certificates(certificate, key), certificate.read_text()
    make_certificate(tmp_path / "c2", tmp_path / "k2", name="second")
    caplog.set_level(logging.INFO, "holdfast.server")
    (tmp_path / "c2").replace(certificate)
    held.renew()
    held.renew()
    assert shown(held.context) == first
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    certificate.write_text("nothing")
    held.renew()
    certificate.unlink()
    held.renew()
    assert shown(held.context) == first
    make_certificate(tmp_path / "c3", tmp_path / "k3", name="third")
    (tmp_path / "k3").replace(key)
    held.renew()
    (tmp_path / "c3").replace(certificate)
    held.renew()
    assert shown(held.context) == certificate.read_text() != first


def test_files_that_are_no_certificate_and_key_are_refused(files, tmp_path: Path) -> None:
    certificate, key = files
    make_certificate(tmp_path / "other", tmp_path / "other-key")
    (tmp_path / "both").write_text(certificate.read_text() + key.read_text())
    whole = configure({"HOLDFAST_TLS_CERTIFICATE": str(tmp_path / "both")}, data=str(tmp_path))
    assert load_certificate(whole) is not None
    for given in (
        (certificate, tmp_path / "other-key"),
        (certificate, tmp_path / "none"),
        (certificate, certificate),
        (tmp_path, key),
    ):
        environ = dict(
            zip(("HOLDFAST_TLS_CERTIFICATE", "HOLDFAST_TLS_KEY"), map(str, given), strict=True)
        )
        with pytest.raises(InvalidValue, match=r"HOLDFAST_TLS_CERTIFICATE: .* cannot be used"):
            load_certificate(configure(environ, data=str(tmp_path)))
    with pytest.raises(InvalidValue, match="HOLDFAST_TLS_CERTIFICATE"):
        configure({"HOLDFAST_TLS_KEY": str(key)}, data=str(tmp_path))


def test_a_pipe_or_a_huge_file_is_refused_and_not_waited_for(files, tmp_path: Path) -> None:
    certificate, key = files
    held, first = Certificates(certificate, key), certificate.read_text()
    os.mkfifo(tmp_path / "pipe")
    with (tmp_path / "huge").open("wb") as file:
        file.truncate(1 << 30)
    for place, wrong in (("pipe", "is a pipe"), ("huge", "has more than")):
        said = subprocess.run(
            [*COMMAND, "serve", "--check"],
            env={
                "HOLDFAST_DATA": str(tmp_path),
                "HOLDFAST_TLS_CERTIFICATE": str(certificate),
                "HOLDFAST_TLS_KEY": str(tmp_path / place),
                "HOLDFAST_GIT_CERTIFICATES": str(tmp_path / place),
            },
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert said.returncode != 0
        assert said.stderr.count(f"/{place}' {wrong}") == 2
    # Nor does one that comes in the place of a certificate in use stop who looks for the next.
    (tmp_path / "pipe").replace(key)
    held.renew()
    assert shown(held.context) == first
