"""Certificates for tests: of this machine's own address, signed by themselves, for a day."""

from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

ADDRESS: Final = "127.0.0.1"


def make_certificate(certificate: Path, key: Path, *, name: str = "server of a test") -> None:
    """Writes a certificate and its key."""
    made_key = ec.generate_private_key(ec.SECP256R1())
    called = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now, address = datetime.now(UTC), x509.IPAddress(IPv4Address(ADDRESS))
    made = (
        x509.CertificateBuilder()
        .subject_name(called)
        .issuer_name(called)
        .public_key(made_key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([address]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(made_key, hashes.SHA256())
    )
    certificate.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    form, hidden = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    key.write_bytes(made_key.private_bytes(serialization.Encoding.PEM, form, hidden))
