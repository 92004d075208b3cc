"""Certificates: a CA, and what it signs for a server; X.509 by RFC 5280, keys on the curve P-256."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

#: Certificates begin to be valid so long before they are made: clocks differ.
SKEW: Final = timedelta(hours=1)

_PEM: Final = serialization.Encoding.PEM


@dataclass(frozen=True)
class Pair:
    """A certificate and its key, both as PEM."""

    certificate: bytes
    key: bytes

    @property
    def parsed(self) -> x509.Certificate:
        """The certificate; raises `ValueError` where it is none."""
        return x509.load_pem_x509_certificate(self.certificate)

    @property
    def sound(self) -> bool:
        """Whether both can be read and belong together."""
        try:
            key = serialization.load_pem_private_key(self.key, None)
            return key.public_key() == self.parsed.public_key()
        except (ValueError, TypeError):
            return False

    def left(self, now: datetime) -> float:
        """Return which share of its life is left: 1 when new, 0 and less when it is over."""
        found = self.parsed
        return (found.not_valid_after_utc - now) / (found.not_valid_after_utc - found.not_valid_before_utc - SKEW)

    def age(self, now: datetime) -> timedelta:
        """Return how long ago it was made."""
        return now - self.parsed.not_valid_before_utc - SKEW


def authority(name: str, now: datetime, life: timedelta) -> Pair:
    """Make a CA that signs itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    usage = x509.KeyUsage(
        digital_signature=False, content_commitment=False, key_encipherment=False, data_encipherment=False,
        key_agreement=False, key_cert_sign=True, crl_sign=True, encipher_only=False, decipher_only=False,
    )  # fmt: skip
    certificate = (
        _begun(subject, subject, key.public_key(), now, life)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    return _pair(certificate, key)


def signed(by: Pair, hosts: Sequence[str], now: datetime, life: timedelta) -> Pair:
    """Make the certificate of a server known by *hosts*, which the CA *by* signs."""
    key = ec.generate_private_key(ec.SECP256R1())
    parent = by.parsed
    signer = serialization.load_pem_private_key(by.key, None)
    assert isinstance(signer, ec.EllipticCurvePrivateKey)
    # A common name holds 64 characters at most, and nobody looks at it beside alternative names.
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, hosts[0][:64])])
    certificate = (
        _begun(subject, parent.subject, key.public_key(), now, life)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(host) for host in hosts]), critical=False)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()),
            critical=False,
        )
        .sign(signer, hashes.SHA256())
    )
    return _pair(certificate, key)


def is_signed(certificate: Pair, by: Pair) -> bool:
    """Whether the CA *by* signed *certificate*."""
    try:
        certificate.parsed.verify_directly_issued_by(by.parsed)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def names(certificate: Pair) -> set[str]:
    """Return the names of hosts that *certificate* is good for."""
    found = certificate.parsed.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    return set(found.value.get_values_for_type(x509.DNSName))


def _begun(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, now: datetime, life: timedelta
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - SKEW)
        .not_valid_after(now + life)
    )


def _pair(certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> Pair:
    plain = key.private_bytes(_PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return Pair(certificate.public_bytes(_PEM), plain)
