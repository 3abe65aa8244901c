"""Which certificate is kept, made or renewed, and what is refused: pure but for the keys."""

import dataclasses

import pytest

from cli import certs_plan
from cli.certs_plan import DesiredCertificates, Leaf, Texts
from runtime import certificates

NOW = 1_790_000_000.0
DAY = certificates.DAY_SECONDS
SERVER, CLIENT = Leaf("extender", "evenload-extender", ("evenload-extender", "10.0.0.1")), Leaf("scheduler", "s")
WANTED = DesiredCertificates((SERVER, CLIENT), days=365, renew_before_days=30)
CA_PATH, SERVER_PATH, CLIENT_PATH = "ca.crt", "extender/tls.crt", "scheduler/tls.crt"


def done(existing: Texts, wanted: DesiredCertificates = WANTED, now_seconds: float = NOW) -> Texts:
    """The directory after the plan was carried out."""
    plan = certs_plan.plan(existing, wanted, now_seconds)
    return certs_plan.carried_out(plan, existing, wanted, now_seconds)


def words(existing: Texts, wanted: DesiredCertificates = WANTED, now_seconds: float = NOW) -> dict[str, str]:
    """What would become of each certificate."""
    return {step.path: step.word for step in certs_plan.plan(existing, wanted, now_seconds).steps}


@pytest.fixture(scope="module")
def issued() -> Texts:
    return done({})


def test_an_empty_directory_gets_a_ca_and_a_certificate_for_each(issued: Texts) -> None:
    assert set(issued) == set(certs_plan.paths(WANTED.leaves))
    authority = issued[CA_PATH]
    assert certificates.read(authority).signs
    for leaf in WANTED.leaves:
        pair = certs_plan.pair(issued, leaf.folder)
        assert pair is not None
        assert certificates.fits(pair)
        assert certificates.is_signed_by(pair.certificate, authority)
        assert issued[f"{leaf.folder}/ca.crt"] == authority
        facts = certificates.read(pair.certificate)
        assert (facts.common_name, facts.hosts) == (leaf.common_name, leaf.hosts)
        assert facts.until_seconds == NOW + 365 * DAY


def test_what_is_not_due_stays_to_the_byte(issued: Texts) -> None:
    assert certs_plan.plan(issued, WANTED, NOW).is_done
    assert done(issued) == issued


@pytest.mark.parametrize(
    ("days", "word"),
    [(334.9, "kept"), (335.5, "renewed"), (364.9, "renewed"), (366, "renewed")],
    ids=["30 days left", "29 days left", "hours left", "run out"],
)
def test_a_certificate_is_renewed_when_fewer_days_are_left(issued: Texts, days: float, word: str) -> None:
    later = NOW + days * DAY
    assert words(issued, now_seconds=later) == {CA_PATH: "kept", SERVER_PATH: word, CLIENT_PATH: word}
    assert certs_plan.plan(done(issued, now_seconds=later), WANTED, later).is_done


def test_a_renewed_one_has_a_new_key_of_the_same_ca(issued: Texts) -> None:
    again = done(issued, dataclasses.replace(WANTED, renew=True))
    assert again["extender/tls.key"] != issued["extender/tls.key"]
    assert (again[CA_PATH], again["ca.key"]) == (issued[CA_PATH], issued["ca.key"])
    assert certificates.is_signed_by(again[SERVER_PATH], issued[CA_PATH])


def test_a_new_host_renews_the_server_alone_and_none_is_lost(issued: Texts) -> None:
    other = dataclasses.replace(WANTED, leaves=(SERVER._replace(hosts=("evenload-extender", "new")), CLIENT))
    assert words(issued, other) == {CA_PATH: "kept", SERVER_PATH: "renewed", CLIENT_PATH: "kept"}
    assert certificates.read(done(issued, other)[SERVER_PATH]).hosts == ("evenload-extender", "new", "10.0.0.1")


def test_another_common_name_renews(issued: Texts) -> None:
    other = dataclasses.replace(WANTED, leaves=(SERVER, CLIENT._replace(common_name="other")))
    assert words(issued, other)[CLIENT_PATH] == "renewed"


BROKEN: dict[str, dict[str, str | None]] = {
    "a key that is gone": {"extender/tls.key": None},
    "a key of another": {"extender/tls.key": "scheduler/tls.key"},
    "a key that is none": {"extender/tls.key": "ca.crt"},
    "a certificate that is none": {"extender/tls.crt": "ca.key"},
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_pair_is_made_anew(issued: Texts, name: str) -> None:
    ((path, source),) = BROKEN[name].items()
    texts = dict(issued)
    del texts[path]
    if source is not None:
        texts[path] = issued[source]
    assert words(texts) == {CA_PATH: "kept", SERVER_PATH: "renewed", CLIENT_PATH: "kept"}
    assert certs_plan.plan(done(texts), WANTED, NOW).is_done


def test_a_replaced_ca_stays_trusted_behind_the_new_one_until_it_runs_out(issued: Texts) -> None:
    replaced = done(issued, dataclasses.replace(WANTED, replace_ca=True))
    new, old = certificates.each(replaced[CA_PATH])
    assert (old, new == old) == (issued[CA_PATH], False)
    assert certificates.is_signed_by(replaced[SERVER_PATH], new)
    assert {replaced[f"{leaf.folder}/ca.crt"] for leaf in WANTED.leaves} == {new + old}
    assert certs_plan.plan(replaced, WANTED, NOW).is_done
    much_later = NOW + 1 * DAY + certs_plan.CA_DAYS * DAY
    twice = done(replaced, dataclasses.replace(WANTED, replace_ca=True), much_later)
    assert len(certificates.each(twice[CA_PATH])) == 1  # both are over


def test_a_certificate_of_a_former_ca_is_renewed(issued: Texts) -> None:
    replaced = done(issued, dataclasses.replace(WANTED, replace_ca=True))
    old_client = {path: issued[path] for path in ("scheduler/tls.crt", "scheduler/tls.key")}
    mixed = {**replaced, **old_client}
    assert words(mixed) == {CA_PATH: "kept", SERVER_PATH: "kept", CLIENT_PATH: "renewed"}


def refusal(existing: Texts, now_seconds: float = NOW) -> str:
    """Why nothing may be done."""
    with pytest.raises(certs_plan.Refused) as refused:
        certs_plan.plan(existing, WANTED, now_seconds)
    return str(refused.value)


def test_a_ca_is_never_replaced_unasked(issued: Texts) -> None:
    without_key = {path: text for path, text in issued.items() if path != "ca.key"}
    assert "ca.crt is there and ca.key is not" in refusal(without_key)
    without_certificate = {path: text for path, text in issued.items() if path != "ca.crt"}
    assert "ca.key is there and ca.crt is not" in refusal(without_certificate)
    assert "expected a PEM certificate" in refusal({**issued, "ca.crt": "nothing"})
    assert "the key is not the certificate's" in refusal({**issued, "ca.key": issued["extender/tls.key"]})
    assert "ran out on 2036-" in refusal(issued, NOW + (certs_plan.CA_DAYS + 1) * DAY)
    for broken in (without_key, without_certificate, {**issued, "ca.crt": "nothing"}):
        assert certs_plan.plan(done(broken, dataclasses.replace(WANTED, replace_ca=True)), WANTED, NOW).is_done


def test_certificates_of_somebody_elses_ca_are_not_overwritten(issued: Texts) -> None:
    foreign = {path: text for path, text in issued.items() if path.startswith("extender/")}
    assert "extender/tls.crt was not signed by ca.crt: it stays" in refusal(foreign)
    assert "it stays" in refusal({**done({}), **foreign})
    half = {path: text for path, text in foreign.items() if path != "extender/tls.key"}
    assert "it stays" in refusal(half)
