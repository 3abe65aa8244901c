"""The cert-manager component makes what the component mtls mounts and allows, and `evenload certs` makes alike.

No cert-manager runs in CI: its objects are held to names that others rely on and to its own rules on fields, not CRDs.
"""

import pytest

from cli import certs, certs_plan
from policy.schema import units
from tests.unit.deploy.manifests import COMPONENTS, Document, added_by_mtls, load

# cert-manager.io/v1 Certificate: the fields of spec that we use, each with its type; another one is a slip of ours
FIELDS = {
    "commonName": str, "dnsNames": list, "duration": str, "isCA": bool, "issuerRef": dict, "privateKey": dict,
    "renewBefore": str, "secretName": str, "usages": list,
}  # fmt: skip
USAGES = {"cert sign", "crl sign", "digital signature", "server auth", "client auth"}


def objects(kind: str) -> dict[str, Document]:
    """The component's objects of a kind by name."""
    every = load(COMPONENTS / "cert-manager" / "certificates.yaml")
    return {one["metadata"]["name"]: one for one in every if one["kind"] == kind}


def test_the_extenders_secret_is_the_one_that_mtls_mounts() -> None:
    (volume,) = [value for value in added_by_mtls() if isinstance(value, dict) and "secret" in value]
    assert objects("Certificate")["evenload-extender"]["spec"]["secretName"] == volume["secret"]["secretName"]


def test_the_schedulers_name_is_the_one_that_mtls_allows() -> None:
    name = objects("Certificate")["evenload-scheduler"]["spec"]["commonName"]
    assert f"--client-name={name}" in added_by_mtls()
    assert name == certs_plan.SCHEDULER_USER


def test_the_extender_has_the_names_that_evenload_certs_gives_it() -> None:
    extender, *_ = certs.leaves("evenload-system", "evenload-extender", (), ())
    spec = objects("Certificate")["evenload-extender"]["spec"]
    assert [*spec["dnsNames"], "127.0.0.1"] == list(extender.hosts)
    assert spec["commonName"] == extender.common_name


def test_one_ca_signs_both_and_is_signed_by_itself() -> None:
    made, issuers = objects("Certificate"), objects("Issuer")
    assert issuers["evenload-ca"]["spec"] == {"ca": {"secretName": made["evenload-ca"]["spec"]["secretName"]}}
    assert issuers["evenload-selfsigned"]["spec"] == {"selfSigned": {}}
    signers = {name: one["spec"]["issuerRef"]["name"] for name, one in made.items()}
    assert signers == {
        "evenload-ca": "evenload-selfsigned",
        "evenload-descheduler": "evenload-ca",
        "evenload-extender": "evenload-ca",
        "evenload-scheduler": "evenload-ca",
    }
    for one in made.values():
        reference = one["spec"]["issuerRef"]
        assert (reference["group"], reference["kind"]) == ("cert-manager.io", "Issuer")
        assert reference["name"] in issuers
        assert one["metadata"]["namespace"] == issuers[reference["name"]]["metadata"]["namespace"]


def test_each_may_do_its_part_and_no_other() -> None:
    usages = {name: set(one["spec"]["usages"]) for name, one in objects("Certificate").items()}
    assert usages["evenload-extender"] == {"digital signature", "server auth"}
    assert usages["evenload-scheduler"] == {"digital signature", "client auth"}
    assert [name for name, one in objects("Certificate").items() if one["spec"].get("isCA")] == ["evenload-ca"]


@pytest.mark.parametrize("name", ["evenload-ca", "evenload-descheduler", "evenload-extender", "evenload-scheduler"])
def test_fields_are_cert_managers_and_of_its_types(name: str) -> None:
    spec = objects("Certificate")[name]["spec"]
    assert {field: type(value) for field, value in spec.items()} == {field: FIELDS[field] for field in spec}
    assert set(spec["usages"]) <= USAGES
    assert spec["privateKey"]["rotationPolicy"] in ("Always", "Never")
    assert (spec["privateKey"]["algorithm"], spec["privateKey"]["size"]) == ("ECDSA", 256)
    assert units.duration_seconds(spec["duration"]) > units.duration_seconds(spec["renewBefore"]) >= 300
    assert len(spec["commonName"]) <= 64
