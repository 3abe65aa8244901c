"""The authority signs what Kubernetes reads: the common name as the user, each organization as a group."""

from cryptography import x509
from cryptography.x509.oid import NameOID

from cluster import certificates

NOW = 1_790_000_000.0


def test_a_client_certificate_names_its_user_and_groups_and_is_signed() -> None:
    authority = certificates.Authority.create(now_seconds=NOW)
    pair = authority.client("jane", ("a", "b"), now_seconds=NOW)
    certificate = x509.load_pem_x509_certificate(pair.certificate.encode())
    names = {
        attribute: [item.value for item in certificate.subject.get_attributes_for_oid(attribute)]
        for attribute in (NameOID.COMMON_NAME, NameOID.ORGANIZATION_NAME)
    }
    assert names == {NameOID.COMMON_NAME: ["jane"], NameOID.ORGANIZATION_NAME: ["a", "b"]}
    issuer = x509.load_pem_x509_certificate(authority.pair.certificate.encode())
    certificate.verify_directly_issued_by(issuer)
    assert certificate.not_valid_before_utc.timestamp() < NOW < certificate.not_valid_after_utc.timestamp()


def test_a_serving_certificate_names_hosts_and_addresses() -> None:
    authority = certificates.Authority(certificates.Authority.create(now_seconds=NOW).pair)
    pair = authority.serving(["localhost", "127.0.0.1"], now_seconds=NOW)
    certificate = x509.load_pem_x509_certificate(pair.certificate.encode())
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["localhost"]
    assert [str(address) for address in names.get_values_for_type(x509.IPAddress)] == ["127.0.0.1"]
