"""Which certificate is kept, made or renewed, and what is refused: pure but for the keys."""

import dataclasses

import pytest

from cli import certs_plan
from cli.certs_plan import DesiredCertificates, ExistingCertificates, Leaf
from runtime import certificates

NOW = 1_790_000_000.0
DAY = certificates.DAY_SECONDS
SERVER, CLIENT = Leaf("extender", "evenload-extender", ("evenload-extender", "10.0.0.1")), Leaf("scheduler", "s")
WANTED = DesiredCertificates((SERVER, CLIENT), days=365, renew_before_days=30)
CA_PATH, SERVER_PATH, CLIENT_PATH = "ca.crt", "extender/tls.crt", "scheduler/tls.crt"


def done(
    existing: ExistingCertificates, wanted: DesiredCertificates = WANTED, now_seconds: float = NOW
) -> ExistingCertificates:
    """The directory after the plan was carried out."""
    plan = certs_plan.plan(existing, wanted, now_seconds)
    return ExistingCertificates(certs_plan.carried_out(plan, existing, wanted, now_seconds))


def words(
    existing: ExistingCertificates, wanted: DesiredCertificates = WANTED, now_seconds: float = NOW
) -> dict[str, str]:
    """What would become of each certificate."""
    return {step.path: step.word for step in certs_plan.plan(existing, wanted, now_seconds).steps}


@pytest.fixture(scope="module")
def issued() -> ExistingCertificates:
    return done(ExistingCertificates({}))


def test_an_empty_directory_gets_a_ca_and_a_certificate_for_each(issued: ExistingCertificates) -> None:
    assert set(issued.texts) == set(certs_plan.paths(WANTED.leaves))
    authority = issued.texts[CA_PATH]
    assert certificates.read(authority).signs
    for leaf in WANTED.leaves:
        pair = issued.leaf(leaf.folder)
        assert pair is not None
        assert certificates.fits(pair)
        assert certificates.is_signed_by(pair.certificate, authority)
        assert issued.texts[f"{leaf.folder}/ca.crt"] == authority
        facts = certificates.read(pair.certificate)
        assert (facts.common_name, facts.hosts) == (leaf.common_name, leaf.hosts)
        assert facts.until_seconds == NOW + 365 * DAY


def test_what_is_not_due_stays_to_the_byte(issued: ExistingCertificates) -> None:
    assert certs_plan.plan(issued, WANTED, NOW).is_done
    assert done(issued).texts == issued.texts


@pytest.mark.parametrize(
    ("days", "word"),
    [(334.9, "kept"), (335.5, "renewed"), (364.9, "renewed"), (366, "renewed")],
    ids=["30 days left", "29 days left", "hours left", "run out"],
)
def test_a_certificate_is_renewed_when_fewer_days_are_left(
    issued: ExistingCertificates, days: float, word: str
) -> None:
    later = NOW + days * DAY
    assert words(issued, now_seconds=later) == {CA_PATH: "kept", SERVER_PATH: word, CLIENT_PATH: word}
    assert certs_plan.plan(done(issued, now_seconds=later), WANTED, later).is_done


def test_a_renewed_one_has_a_new_key_of_the_same_ca(issued: ExistingCertificates) -> None:
    again = done(issued, dataclasses.replace(WANTED, renew=True))
    assert again.texts["extender/tls.key"] != issued.texts["extender/tls.key"]
    assert (again.texts[CA_PATH], again.texts["ca.key"]) == (issued.texts[CA_PATH], issued.texts["ca.key"])
    assert certificates.is_signed_by(again.texts[SERVER_PATH], issued.texts[CA_PATH])


def test_a_new_host_renews_the_server_alone_and_none_is_lost(issued: ExistingCertificates) -> None:
    other = dataclasses.replace(WANTED, leaves=(SERVER._replace(hosts=("evenload-extender", "new")), CLIENT))
    assert words(issued, other) == {CA_PATH: "kept", SERVER_PATH: "renewed", CLIENT_PATH: "kept"}
    assert certificates.read(done(issued, other).texts[SERVER_PATH]).hosts == ("evenload-extender", "new", "10.0.0.1")


def test_another_common_name_renews(issued: ExistingCertificates) -> None:
    other = dataclasses.replace(WANTED, leaves=(SERVER, CLIENT._replace(common_name="other")))
    assert words(issued, other)[CLIENT_PATH] == "renewed"


BROKEN: dict[str, dict[str, str | None]] = {
    "a key that is gone": {"extender/tls.key": None},
    "a key of another": {"extender/tls.key": "scheduler/tls.key"},
    "a key that is none": {"extender/tls.key": "ca.crt"},
    "a certificate that is none": {"extender/tls.crt": "ca.key"},
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_pair_is_made_anew(issued: ExistingCertificates, name: str) -> None:
    ((path, source),) = BROKEN[name].items()
    texts = dict(issued.texts)
    del texts[path]
    if source is not None:
        texts[path] = issued.texts[source]
    assert words(ExistingCertificates(texts)) == {CA_PATH: "kept", SERVER_PATH: "renewed", CLIENT_PATH: "kept"}
    assert certs_plan.plan(done(ExistingCertificates(texts)), WANTED, NOW).is_done


def test_a_replaced_ca_stays_trusted_behind_the_new_one_until_it_runs_out(issued: ExistingCertificates) -> None:
    replaced = done(issued, dataclasses.replace(WANTED, replace_ca=True))
    new, old = certificates.each(replaced.texts[CA_PATH])
    assert (old, new == old) == (issued.texts[CA_PATH], False)
    assert certificates.is_signed_by(replaced.texts[SERVER_PATH], new)
    assert {replaced.texts[f"{leaf.folder}/ca.crt"] for leaf in WANTED.leaves} == {new + old}
    assert certs_plan.plan(replaced, WANTED, NOW).is_done
    much_later = NOW + 1 * DAY + certs_plan.CA_DAYS * DAY
    twice = done(replaced, dataclasses.replace(WANTED, replace_ca=True), much_later)
    assert len(certificates.each(twice.texts[CA_PATH])) == 1  # both are over


def test_a_certificate_of_a_former_ca_is_renewed(issued: ExistingCertificates) -> None:
    replaced = done(issued, dataclasses.replace(WANTED, replace_ca=True))
    old_client = {path: issued.texts[path] for path in ("scheduler/tls.crt", "scheduler/tls.key")}
    mixed = ExistingCertificates({**replaced.texts, **old_client})
    assert words(mixed) == {CA_PATH: "kept", SERVER_PATH: "kept", CLIENT_PATH: "renewed"}


def refusal(existing: ExistingCertificates, now_seconds: float = NOW) -> str:
    """Why nothing may be done."""
    with pytest.raises(certs_plan.Refused) as refused:
        certs_plan.plan(existing, WANTED, now_seconds)
    return str(refused.value)


def test_a_ca_is_never_replaced_unasked(issued: ExistingCertificates) -> None:
    without_key = ExistingCertificates({path: text for path, text in issued.texts.items() if path != "ca.key"})
    assert "ca.crt is there and ca.key is not" in refusal(without_key)
    without_certificate = ExistingCertificates({path: text for path, text in issued.texts.items() if path != "ca.crt"})
    assert "ca.key is there and ca.crt is not" in refusal(without_certificate)
    assert "expected a PEM certificate" in refusal(ExistingCertificates({**issued.texts, "ca.crt": "nothing"}))
    assert "the key is not the certificate's" in refusal(
        ExistingCertificates({**issued.texts, "ca.key": issued.texts["extender/tls.key"]})
    )
    assert "ran out on 2036-" in refusal(issued, NOW + (certs_plan.CA_DAYS + 1) * DAY)
    for broken in (without_key, without_certificate, ExistingCertificates({**issued.texts, "ca.crt": "nothing"})):
        assert certs_plan.plan(done(broken, dataclasses.replace(WANTED, replace_ca=True)), WANTED, NOW).is_done


def test_certificates_of_somebody_elses_ca_are_not_overwritten(issued: ExistingCertificates) -> None:
    foreign = {path: text for path, text in issued.texts.items() if path.startswith("extender/")}
    assert "extender/tls.crt was not signed by ca.crt: it stays" in refusal(ExistingCertificates(foreign))
    assert "it stays" in refusal(ExistingCertificates({**done(ExistingCertificates({})).texts, **foreign}))
    half = {path: text for path, text in foreign.items() if path != "extender/tls.key"}
    assert "it stays" in refusal(ExistingCertificates(half))
