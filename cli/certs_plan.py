"""Which certificates between kube-scheduler and the extender are there, which are due, and what becomes of each.

Pure but for the keys that `carried_out` makes: `cli.certs` reads a directory into `Texts`, shows the `Step`s, and
writes the files. One CA signs a server's certificate for the extender and a client's for each who may ask.
A CA is never replaced unless that is said; until they run out, its predecessors stay trusted behind it in every ca.crt.
"""

import collections.abc
import dataclasses
import datetime
from typing import Final, Literal, NamedTuple

from runtime import certificates

CA_CERTIFICATE, CA_KEY = "ca.crt", "ca.key"
CERTIFICATE, KEY = "tls.crt", "tls.key"  # as in a Secret of type kubernetes.io/tls
CA_NAME: Final = "evenload-ca"
CA_DAYS: Final = 3650
CA_NOTICE_DAYS: Final = 90  # replacing it takes hands on every control-plane node
EXTENDER, SCHEDULER = "extender", "scheduler"
SCHEDULER_USER: Final = "system:kube-scheduler"
Word = Literal["kept", "made", "renewed"]
Texts = collections.abc.Mapping[str, str]  # of the files that a directory has, by relative path


class Refused(ValueError):
    """Raised when an existing object is foreign or unusable; the message names the next step."""


class Leaf(NamedTuple):
    """A certificate wanted: its folder, its common name, and for a server the hosts (none: it is a client's)."""

    folder: str
    common_name: str
    hosts: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class DesiredCertificates:
    """The wanted certificates; days count from now."""

    leaves: tuple[Leaf, ...]
    days: int
    renew_before_days: int
    renew: bool = False
    replace_ca: bool = False


class Step(NamedTuple):
    """The action for one certificate, its reason, and until when the present one is good (None: there is none)."""

    path: str
    word: Word
    why: str
    until_seconds: float | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Plan:
    """The CA's step first, then a step for each leaf in the order wanted."""

    steps: tuple[Step, ...]
    former_cas: tuple[str, ...]

    @property
    def is_done(self) -> bool:
        """Whether everything stays as it is."""
        return all(step.word == "kept" for step in self.steps)


def paths(leaves: collections.abc.Iterable[Leaf]) -> tuple[str, ...]:
    """Every file that a plan looks at or writes."""
    own = [f"{leaf.folder}/{name}" for leaf in leaves for name in (CERTIFICATE, KEY, CA_CERTIFICATE)]
    return (CA_CERTIFICATE, CA_KEY, *own)


def pair(texts: Texts, folder: str = "") -> certificates.Pair | None:
    """The certificate and key of a leaf's folder, or the CA's; None unless there are both."""
    certificate, key = (f"{folder}/{CERTIFICATE}", f"{folder}/{KEY}") if folder else (CA_CERTIFICATE, CA_KEY)
    return certificates.Pair(texts[certificate], texts[key]) if {certificate, key} <= texts.keys() else None


def plan(existing: Texts, wanted: DesiredCertificates, now_seconds: float) -> Plan:
    """Returns the actions; Refused says why there can be none."""
    ca = _ca(existing, now_seconds, replace=wanted.replace_ca)
    trusted = () if ca.word == "made" else certificates.each(existing[CA_CERTIFICATE])
    leaves = tuple(_leaf(existing, wanted, leaf, trusted, now_seconds=now_seconds) for leaf in wanted.leaves)
    return Plan((ca, *leaves), _former(existing, now_seconds, replaced=ca.word == "made"))


def carried_out(planned: Plan, existing: Texts, wanted: DesiredCertificates, now_seconds: float) -> dict[str, str]:
    """The texts of all files by path, those that stay included; makes the new keys."""
    if planned.steps[0].word == "kept":
        authority = certificates.Authority(certificates.Pair(existing[CA_CERTIFICATE], existing[CA_KEY]))
    else:
        authority = certificates.Authority.create(CA_NAME, now_seconds=now_seconds, days=CA_DAYS)
    trusted = "".join((certificates.each(authority.pair.certificate)[0], *planned.former_cas))
    texts = {CA_CERTIFICATE: trusted, CA_KEY: authority.pair.key}
    for leaf, step in zip(wanted.leaves, planned.steps[1:], strict=True):
        signed = pair(existing, leaf.folder) if step.word == "kept" else None
        if signed is None and (hosts := _all_hosts(existing, leaf)):
            signed = authority.serving(hosts, now_seconds=now_seconds, days=wanted.days)
        elif signed is None:
            signed = authority.client(leaf.common_name, (), now_seconds=now_seconds, days=wanted.days)
        texts |= {f"{leaf.folder}/{KEY}": signed.key, f"{leaf.folder}/{CERTIFICATE}": signed.certificate}
        texts[f"{leaf.folder}/{CA_CERTIFICATE}"] = trusted
    return texts


def expiry(certificate: str) -> str:
    """The day on which it runs out, "" for what is no certificate."""
    try:
        return date(certificates.read(certificate).until_seconds)
    except certificates.CertificateError:
        return ""


def date(unix_seconds: float) -> str:
    """The day, UTC."""
    return datetime.datetime.fromtimestamp(unix_seconds, datetime.UTC).date().isoformat()


def days_left(until_seconds: float, now_seconds: float) -> int:
    """Whole days."""
    return int((until_seconds - now_seconds) // certificates.DAY_SECONDS)


def _all_hosts(existing: Texts, leaf: Leaf) -> tuple[str, ...]:
    """The hosts wanted and those that the server's certificate has: an option that is left out takes none away."""
    there = existing.get(f"{leaf.folder}/{CERTIFICATE}")
    if not leaf.hosts or there is None:
        return leaf.hosts
    try:
        return tuple(dict.fromkeys((*leaf.hosts, *certificates.read(there).hosts)))
    except certificates.CertificateError:
        return leaf.hosts


def _ca(existing: Texts, now_seconds: float, *, replace: bool) -> Step:
    """Keeps a CA that can sign, makes one where there is none, and refuses everything between."""
    named = [name for name in (CA_CERTIFICATE, CA_KEY) if name in existing]
    if replace or not named:
        return Step(CA_CERTIFICATE, "made", "--replace-ca" if CA_CERTIFICATE in named else "there was none")
    there = pair(existing)
    if there is None:
        (name,) = named
        missing = CA_KEY if name == CA_CERTIFICATE else CA_CERTIFICATE
        raise Refused(f"{name} is there and {missing} is not: put it back, or say --replace-ca to begin with a new CA")
    try:
        until_seconds = certificates.read(certificates.Authority(there).pair.certificate).until_seconds
    except certificates.CertificateError as error:
        raise Refused(f"{CA_CERTIFICATE} and {CA_KEY}: {error}; put them right, or say --replace-ca") from error
    if until_seconds <= now_seconds:
        raise Refused(f"{CA_CERTIFICATE} ran out on {date(until_seconds)}: say --replace-ca to begin with a new CA")
    return Step(CA_CERTIFICATE, "kept", "", until_seconds)


def _former(existing: Texts, now_seconds: float, *, replaced: bool) -> tuple[str, ...]:
    """CAs that are still trusted beside the first; one that is replaced is among them until it runs out."""
    try:
        known = certificates.each(existing.get(CA_CERTIFICATE, ""))
    except certificates.CertificateError:
        return ()
    return tuple(one for one in known[0 if replaced else 1 :] if certificates.read(one).until_seconds > now_seconds)


def _leaf(
    existing: Texts,
    wanted: DesiredCertificates,
    leaf: Leaf,
    trusted: tuple[str, ...],
    *,
    now_seconds: float,
) -> Step:
    path = f"{leaf.folder}/{CERTIFICATE}"
    if (there := existing.get(path)) is None:
        return Step(path, "made", "there was none")
    try:
        facts = certificates.read(there)
        signers = [certificates.is_signed_by(there, ca) for ca in trusted]
        both = pair(existing, leaf.folder)
        why = _due(leaf, facts, wanted, now_seconds) if both and certificates.fits(both) else f"{KEY} is not its key"
    except certificates.CertificateError as error:
        return Step(path, "renewed", str(error))
    if not any(signers) and not wanted.replace_ca:
        raise Refused(
            f"{path} was not signed by {CA_CERTIFICATE}: it stays. Move it away, choose another "
            "--directory, or say --replace-ca to make all of them again"
        )
    if wanted.replace_ca or not signers[0]:
        why = "there is a new CA"
    return Step(path, "renewed" if why else "kept", why, facts.until_seconds)


def _due(leaf: Leaf, facts: certificates.Facts, wanted: DesiredCertificates, now_seconds: float) -> str:
    """Why a certificate that could be used is renewed; "" if it is not."""
    left = days_left(facts.until_seconds, now_seconds)
    if wanted.renew:
        return "--renew"
    if left < wanted.renew_before_days:
        return f"{left} days are left" if left >= 0 else "it ran out"
    if new := [host for host in leaf.hosts if host not in facts.hosts]:
        return f"for {', '.join(new)} too"
    return "" if facts.common_name == leaf.common_name else f"it was for {facts.common_name}"
