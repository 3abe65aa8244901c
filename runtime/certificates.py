"""X.509 certificates: an authority that signs for servers and clients, and what stands in a certificate.

The one door to the `cryptography` library. `cluster.site` makes a control plane's certificates with it, `cli.certs`
those between kube-scheduler and the extender; no service imports it, because serving TLS needs only the standard
library. Kubernetes reads a client certificate's common name as the user and each organization as a group.
"""

import collections.abc
import datetime
import ipaddress
import typing

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

DAYS = 365
DAY_SECONDS = 86_400.0
E = typing.TypeVar("E", bound=x509.ExtensionType)
BACKDATED = datetime.timedelta(hours=1)  # clocks of containers on one machine may differ a little


class CertificateError(ValueError):
    """Text that is no certificate or key of the kind expected."""


class Pair(typing.NamedTuple):
    """A certificate and its private key, both PEM."""

    certificate: str
    key: str


class Facts(typing.NamedTuple):
    """Fields of a certificate: its subject's common name, the hosts it serves (names and addresses as text), its times
    (Unix seconds), and whether it may sign others.
    """

    common_name: str
    hosts: tuple[str, ...]
    from_seconds: float
    until_seconds: float
    signs: bool


class Authority:
    """A CA; of several certificates in its text, the first is its own. CertificateError: the pair is no CA."""

    def __init__(self, pair: Pair) -> None:
        self.pair = pair
        if not read(pair.certificate).signs:
            raise CertificateError("the certificate may not sign others: it is none of a CA")
        if not fits(pair):
            raise CertificateError("the key is not the certificate's")
        self._certificate, self._key = _certificate(pair.certificate), _private_key(pair.key)

    @classmethod
    def create(cls, name: str = "evenload-cluster-ca", *, now_seconds: float, days: int = DAYS) -> "Authority":
        """A new self-signed authority."""
        key, subject, until_seconds = new_key(), _name(name, ()), now_seconds + days * DAY_SECONDS
        builder = _builder(subject, subject, key, now_seconds=now_seconds, until_seconds=until_seconds, signs=True)
        return cls(Pair(_pem(builder.sign(key, hashes.SHA256())), key_pem(key)))

    def serving(self, hosts: collections.abc.Sequence[str], *, now_seconds: float, days: int = DAYS) -> Pair:
        """A server's certificate for DNS names and IP addresses, none of it longer than the authority's own."""
        names = x509.SubjectAlternativeName([_alternative(host) for host in hosts])
        purpose = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH])
        return self._leaf(_name(hosts[0], ()), names, purpose, now_seconds=now_seconds, days=days)

    def client(self, user: str, groups: collections.abc.Sequence[str], *, now_seconds: float, days: int = DAYS) -> Pair:
        """A client's certificate; Kubernetes takes the user and the groups from it."""
        purpose = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH])
        return self._leaf(_name(user, groups), purpose, now_seconds=now_seconds, days=days)

    def _leaf(self, name: x509.Name, *extensions: x509.ExtensionType, now_seconds: float, days: int) -> Pair:
        key, own = new_key(), self._certificate
        until_seconds = min(now_seconds + days * DAY_SECONDS, own.not_valid_after_utc.timestamp())
        builder = _builder(name, own.subject, key, now_seconds=now_seconds, until_seconds=until_seconds, signs=False)
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        for extension in (issuer, *extensions):
            builder = builder.add_extension(extension, critical=False)
        return Pair(_pem(builder.sign(self._key, hashes.SHA256())), key_pem(key))


def read(certificate: str) -> Facts:
    """Reads the first certificate of a PEM text; CertificateError when there is none."""
    certificate_of_file = _certificate(certificate)
    names = certificate_of_file.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    constraints = _extension(certificate_of_file, x509.BasicConstraints)
    return Facts(
        common_name=str(names[-1].value) if names else "",
        hosts=tuple(str(name.value) for name in _extension(certificate_of_file, x509.SubjectAlternativeName) or ()),
        from_seconds=certificate_of_file.not_valid_before_utc.timestamp(),
        until_seconds=certificate_of_file.not_valid_after_utc.timestamp(),
        signs=constraints is not None and constraints.ca,
    )


def each(bundle: str) -> tuple[str, ...]:
    """The certificates of a PEM text one by one; CertificateError when there is none."""
    try:
        return tuple(_pem(one) for one in x509.load_pem_x509_certificates(bundle.encode()))
    except ValueError as error:
        raise CertificateError(f"expected PEM certificates: {error}") from error


def fits(pair: Pair) -> bool:
    """Whether the key is the certificate's; CertificateError when one of them is none."""
    return _certificate(pair.certificate).public_key() == _private_key(pair.key).public_key()


def is_signed_by(certificate: str, authority: str) -> bool:
    """Whether the authority's certificate vouches for this one; CertificateError when one of them is none."""
    try:
        _certificate(certificate).verify_directly_issued_by(_certificate(authority))
    except (ValueError, TypeError, InvalidSignature):  # another name, another kind of key, another key
        return False
    return True


def new_key() -> ec.EllipticCurvePrivateKey:
    """A P-256 key: made in microseconds, and good for tokens (ES256) too."""
    return ec.generate_private_key(ec.SECP256R1())


def key_pem(key: ec.EllipticCurvePrivateKey) -> str:
    """The private key as unencrypted PEM."""
    form = serialization.PrivateFormat.TraditionalOpenSSL
    return key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()).decode()


def _pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(serialization.Encoding.PEM).decode()


def _name(common_name: str, organizations: collections.abc.Sequence[str]) -> x509.Name:
    groups = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in organizations]
    return x509.Name([*groups, x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _alternative(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    *,
    now_seconds: float,
    until_seconds: float,
    signs: bool,
) -> x509.CertificateBuilder:
    """Begins a certificate for a key, with what one of an authority and one of its leaves have in common."""
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(key.public_key())
    builder = builder.serial_number(x509.random_serial_number())
    builder = builder.not_valid_before(_utc(now_seconds) - BACKDATED).not_valid_after(_utc(until_seconds))
    usage = x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=signs,
        crl_sign=signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
    identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    constraints = x509.BasicConstraints(ca=signs, path_length=0 if signs else None)
    builder = builder.add_extension(identifier, critical=False)
    return builder.add_extension(constraints, critical=True).add_extension(usage, critical=True)


def _utc(unix_seconds: float) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(unix_seconds, tz=datetime.UTC)


def _certificate(pem: str) -> x509.Certificate:
    try:
        return x509.load_pem_x509_certificate(pem.encode())
    except ValueError as error:
        raise CertificateError(f"expected a PEM certificate: {error}") from error


def _private_key(pem: str) -> ec.EllipticCurvePrivateKey:
    try:
        key = serialization.load_pem_private_key(pem.encode(), password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:  # TypeError: it is encrypted
        raise CertificateError(f"expected an unencrypted PEM key: {error}") from error
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise CertificateError(f"the key is a {type(key).__name__}, expected an elliptic-curve key")
    return key


def _extension(certificate: x509.Certificate, kind: type[E]) -> E | None:
    try:
        return certificate.extensions.get_extension_for_class(kind).value
    except x509.ExtensionNotFound:
        return None
