"""The cluster's own certificate authority: serving certificates, client certificates and the service-account key.

`control_plane` makes one authority per cluster and keeps it in the cluster's pki directory. Kubernetes reads a client
certificate's common name as the user and each organization as a group; trustme, which tests use elsewhere, allows
only one organization, so the certificates are made with the library beneath it.
"""

import collections.abc
import datetime
import ipaddress
import typing

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

LIFETIME = datetime.timedelta(days=365)
BACKDATED = datetime.timedelta(hours=1)  # clocks of containers on one machine may differ a little

ADMIN = ("kubernetes-admin", ("system:masters",))
SCHEDULER = ("system:kube-scheduler", ())
CONTROLLER_MANAGER = ("system:kube-controller-manager", ())


class Pair(typing.NamedTuple):
    """A certificate and its private key, both PEM."""

    certificate: str
    key: str


class Authority:
    """A CA that signs for the cluster; `now_seconds` (Unix) is when its certificates begin."""

    def __init__(self, pair: Pair) -> None:
        self.pair = pair
        self._certificate = x509.load_pem_x509_certificate(pair.certificate.encode())
        key = serialization.load_pem_private_key(pair.key.encode(), password=None)
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise TypeError(f"the authority's key is a {type(key).__name__}, expected an elliptic-curve key")
        self._key = key

    @classmethod
    def create(cls, *, now_seconds: float) -> "Authority":
        """A new self-signed authority."""
        key = new_key()
        name = _name("evenload-cluster-ca", ())
        builder = _builder(name, name, key.public_key(), now_seconds)
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        builder = builder.add_extension(_usage(signs=True), critical=True)
        return cls(Pair(_pem(builder.sign(key, hashes.SHA256())), key_pem(key)))

    def serving(self, hosts: collections.abc.Sequence[str], *, now_seconds: float) -> Pair:
        """A server's certificate for DNS names and IP addresses."""
        key = new_key()
        builder = self._leaf(_name(hosts[0], ()), key, now_seconds)
        names = x509.SubjectAlternativeName([_alternative(host) for host in hosts])
        builder = builder.add_extension(names, critical=False)
        builder = builder.add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        return Pair(_pem(builder.sign(self._key, hashes.SHA256())), key_pem(key))

    def client(self, user: str, groups: collections.abc.Sequence[str], *, now_seconds: float) -> Pair:
        """A client's certificate; Kubernetes takes the user and the groups from it."""
        key = new_key()
        builder = self._leaf(_name(user, groups), key, now_seconds)
        builder = builder.add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False)
        return Pair(_pem(builder.sign(self._key, hashes.SHA256())), key_pem(key))

    def _leaf(self, name: x509.Name, key: ec.EllipticCurvePrivateKey, now_seconds: float) -> x509.CertificateBuilder:
        builder = _builder(name, self._certificate.subject, key.public_key(), now_seconds)
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        return builder.add_extension(issuer, critical=False).add_extension(_usage(signs=False), critical=True)


def new_key() -> ec.EllipticCurvePrivateKey:
    """A P-256 key: made in microseconds, and good for tokens (ES256) too."""
    return ec.generate_private_key(ec.SECP256R1())


def key_pem(key: ec.EllipticCurvePrivateKey) -> str:
    """The private key as unencrypted PEM."""
    form = serialization.PrivateFormat.TraditionalOpenSSL
    return key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()).decode()


def public_pem(key: ec.EllipticCurvePrivateKey) -> str:
    """The public half as PEM, for the apiserver to check tokens with."""
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    return key.public_key().public_bytes(serialization.Encoding.PEM, form).decode()


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
    subject: x509.Name, issuer: x509.Name, public: ec.EllipticCurvePublicKey, now_seconds: float
) -> x509.CertificateBuilder:
    now = datetime.datetime.fromtimestamp(now_seconds, tz=datetime.UTC)
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(public)
    builder = builder.serial_number(x509.random_serial_number())
    builder = builder.not_valid_before(now - BACKDATED).not_valid_after(now + LIFETIME)
    return builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)


def _usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
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
