"""The authority signs what servers, clients and Kubernetes read: names, hosts, users, groups and times."""

import pytest
from cryptography import x509
from cryptography.x509.oid import NameOID

from runtime import certificates

NOW = 1_790_000_000.0
DAY = certificates.DAY_SECONDS


@pytest.fixture(scope="module")
def authority() -> certificates.Authority:
    return certificates.Authority.create(now_seconds=NOW)


def test_a_client_certificate_names_its_user_and_groups_and_is_signed(authority: certificates.Authority) -> None:
    pair = authority.client("jane", ("a", "b"), now_seconds=NOW)
    certificate = x509.load_pem_x509_certificate(pair.certificate.encode())
    names = {
        attribute: [item.value for item in certificate.subject.get_attributes_for_oid(attribute)]
        for attribute in (NameOID.COMMON_NAME, NameOID.ORGANIZATION_NAME)
    }
    assert names == {NameOID.COMMON_NAME: ["jane"], NameOID.ORGANIZATION_NAME: ["a", "b"]}
    assert certificates.is_signed_by(pair.certificate, authority.pair.certificate)
    found = certificates.read(pair.certificate)
    assert found.common_name == "jane"
    assert found.from_seconds < NOW < found.until_seconds == NOW + certificates.DAYS * DAY
    assert not found.signs


def test_a_serving_certificate_names_hosts_and_addresses(authority: certificates.Authority) -> None:
    again = certificates.Authority(authority.pair)
    pair = again.serving(["localhost", "127.0.0.1"], now_seconds=NOW, days=30)
    found = certificates.read(pair.certificate)
    assert found.hosts == ("localhost", "127.0.0.1")
    assert found.until_seconds == NOW + 30 * DAY
    assert certificates.fits(pair)
    assert not certificates.fits(pair._replace(key=authority.pair.key))


def test_nothing_outlives_the_authority_that_signed_it() -> None:
    authority = certificates.Authority.create(now_seconds=NOW, days=10)
    end_seconds = certificates.read(authority.pair.certificate).until_seconds
    assert (
        certificates.read(authority.client("a", (), now_seconds=NOW + 5 * DAY).certificate).until_seconds == end_seconds
    )


def test_another_authority_of_the_same_name_did_not_sign_it(authority: certificates.Authority) -> None:
    other = certificates.Authority.create(now_seconds=NOW)
    pair = authority.client("a", (), now_seconds=NOW)
    assert not certificates.is_signed_by(pair.certificate, other.pair.certificate)


def test_of_several_certificates_the_first_is_the_authoritys_own(authority: certificates.Authority) -> None:
    other = certificates.Authority.create("other", now_seconds=NOW)
    both = authority.pair.certificate + other.pair.certificate
    assert certificates.each(both) == (authority.pair.certificate, other.pair.certificate)
    signing = certificates.Authority(certificates.Pair(both, authority.pair.key))
    assert certificates.is_signed_by(signing.client("a", (), now_seconds=NOW).certificate, authority.pair.certificate)


def test_what_is_no_authority_is_refused_with_the_reason(authority: certificates.Authority) -> None:
    leaf = authority.client("a", (), now_seconds=NOW)
    refused = {
        "may not sign others": leaf,
        "the key is not the certificate's": authority.pair._replace(key=leaf.key),
        "expected a PEM certificate": certificates.Pair("nothing", leaf.key),
        "expected an unencrypted PEM key": authority.pair._replace(key="nothing"),
    }
    for reason, pair in refused.items():
        with pytest.raises(certificates.CertificateError, match=reason):
            certificates.Authority(pair)
    with pytest.raises(certificates.CertificateError, match="expected PEM certificates"):
        certificates.each("nothing")
