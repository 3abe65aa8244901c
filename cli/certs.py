"""`evenload certs`: the certificates by which kube-scheduler and the extender know each other, made and renewed.

A directory holds the CA and one folder for each place that a certificate goes to; running the command again renews what
is due. `cli.certs_plan` decides, this module reads, writes and prints. docs/how-to/tls.md says where the folders go.
"""

import base64
import pathlib
import re
import secrets
import stat
from collections.abc import Iterable
from typing import Final

import click

from cli import certs_plan
from cli.certs_plan import Leaf
from cli.common import option_types, output
from kube.api import identifiers
from runtime import clock, exit_codes, files

SECRET: Final = "evenload-extender-tls"  # noqa: S105 - the name that deploy/kustomize/components/mtls mounts
OURS: Final = (certs_plan.EXTENDER, certs_plan.SCHEDULER)  # folders that are no person's
_DAYS: Final = click.IntRange(min=1, max=certs_plan.CA_DAYS)
_LABEL: Final = option_types.matching(  # folder, common name and part of a name
    "TEXT", identifiers.is_namespace, ": expected small letters, digits and dashes, at most 63"
)
_HOST: Final = option_types.matching(
    "TEXT", re.compile(r"[A-Za-z0-9.:-]{1,253}").fullmatch, " is not a DNS name or address"
)


def _people(_context: click.Context, _parameter: click.Parameter, names: tuple[str, ...]) -> tuple[str, ...]:
    for name in names:
        if name in OURS:
            raise click.BadParameter(f"{name!r} is a folder of the CA already")
    return names


@click.command("certs")
@click.option(
    "-d",
    "--directory",
    required=True,
    type=click.Path(file_okay=False, path_type=pathlib.Path),
    help="Where CA and certificates are or shall be. ca.key signs all of them: keep it away from the cluster.",
)
@click.option("-n", "--namespace", default="evenload-system", show_default=True, type=_LABEL)
@click.option("--service", default="evenload-extender", show_default=True, type=_LABEL, help="The extender's.")
@click.option("--host", "hosts", multiple=True, type=_HOST, help="A further DNS name or address of the extender.")
@click.option(
    "--client", "clients", multiple=True, type=_LABEL, callback=_people, help="A person: a certificate of this name."
)
@click.option("--days", default=365, show_default=True, type=_DAYS, help="How long new certificates are good.")
@click.option("--renew-before-days", default=30, show_default=True, type=_DAYS, help="Renew with fewer days left.")
@click.option("--renew", is_flag=True, help="Renew all but the CA now.")
@click.option("--replace-ca", is_flag=True, help="Begin with a new CA; those before it stay trusted beside it.")
@click.option("--client-secrets", is_flag=True, help="With -o yaml|json: the clients' Secrets too.")
@click.option("--dry-run", is_flag=True, help="Only say what would be done; 1 if there is something.")
@output.option("table", "yaml", "json")
def main(
    *, directory: pathlib.Path, namespace: str, service: str, hosts: tuple[str, ...], clients: tuple[str, ...],
    days: int, renew_before_days: int, renew: bool, replace_ca: bool, client_secrets: bool, dry_run: bool,
    output_format: output.Format,
) -> None:  # fmt: skip
    """Make and renew the certificates between kube-scheduler and the extender.

    \b
    DIRECTORY/ca.crt, ca.key   the CA; ca.key never leaves this directory
    DIRECTORY/extender/        tls.crt, tls.key, ca.crt of the extender, for its Secret
    DIRECTORY/scheduler/       the same of kube-scheduler, for /etc/kubernetes/evenload
    DIRECTORY/NAME/            the same of each --client NAME

    What is there and not due stays, with every host that it names. -o yaml prints the extender's Secret.

    \b
    Examples:
      evenload certs -d pki
      evenload certs -d pki -o yaml | kubectl apply --server-side -f -
    """
    if dry_run and output_format != "table":
        output.fail("--dry-run prints the table: it has no keys to print as Secrets")
    with exit_codes.reported(certs_plan.Refused, OSError):
        known = (path.parent.name for path in directory.glob(f"*/{certs_plan.CERTIFICATE}"))
        people = sorted(name for name in known if identifiers.is_namespace(name) and name not in OURS)
        wanted = certs_plan.DesiredCertificates(
            leaves(namespace, service, hosts, (*clients, *people)),  # renewed without naming them again
            days,
            renew_before_days,
            renew=renew,
            replace_ca=replace_ca,
        )
        existing = read(directory, wanted.leaves)
        now_seconds = clock.WallClock().now()
        plan = certs_plan.plan(existing, wanted, now_seconds)
        texts = {} if dry_run else certs_plan.carried_out(plan, existing, wanted, now_seconds)
        write(directory, {path: text for path, text in texts.items() if existing.get(path) != text})
    if output_format == "table":
        after = texts or existing
        rows = [(step.path, step.word, step.why, certs_plan.expiry(after.get(step.path, ""))) for step in plan.steps]
        output.data(output.table(("file", "done", "why", "expires"), rows))
    else:
        folders = [leaf.folder for leaf in wanted.leaves if leaf.hosts or client_secrets]
        items = [_secret(texts, folder, namespace) for folder in folders]
        output.data(output.structured({"apiVersion": "v1", "kind": "List", "items": items}, output_format))
    raise SystemExit(int(_report(plan, directory, namespace, now_seconds, dry_run=dry_run)))


def leaves(namespace: str, service: str, hosts: Iterable[str], clients: Iterable[str]) -> tuple[Leaf, ...]:
    """The extender under every name of its Service and of a port-forward, kube-scheduler, and the people."""
    names = (
        f"{service}{domain}" for domain in ("", f".{namespace}", f".{namespace}.svc", f".{namespace}.svc.cluster.local")
    )
    known = dict.fromkeys((*names, "localhost", "127.0.0.1", *hosts))
    people = (Leaf(name, name) for name in dict.fromkeys(clients))
    return (
        Leaf(certs_plan.EXTENDER, service, tuple(known)),
        Leaf(certs_plan.SCHEDULER, certs_plan.SCHEDULER_USER),
        *people,
    )


def read(directory: pathlib.Path, wanted: Iterable[Leaf]) -> certs_plan.Texts:
    """The files that are there; says which key others may read. OSError names a file that cannot be read."""
    texts: dict[str, str] = {}
    for relative in certs_plan.paths(wanted):
        path = directory / relative
        if not path.exists():
            continue
        texts[relative] = files.read(path).decode("ascii", errors="replace")
        if path.suffix == ".key" and stat.S_IMODE(path.stat().st_mode) & 0o077:
            output.say(f"warning: others may read {path}: chmod 600 {path}")
    return texts


def write(directory: pathlib.Path, texts: certs_plan.Texts) -> None:
    """Replaces files, each whole at once, in this order; keys are readable by their owner alone from the beginning."""
    for relative, text in texts.items():
        path = directory / relative
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        unfinished = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
        mode = 0o600 if path.suffix == ".key" else 0o644
        unfinished.touch(mode, exist_ok=False)
        unfinished.write_text(text, encoding="ascii")
        unfinished.replace(path)


def _secret(texts: certs_plan.Texts, folder: str, namespace: str) -> dict[str, object]:
    """The Secret of a certificate; never with the CA's key."""
    names = (certs_plan.CERTIFICATE, certs_plan.KEY, certs_plan.CA_CERTIFICATE)
    labels = {"app.kubernetes.io/name": "evenload", "app.kubernetes.io/component": folder}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": SECRET if folder == certs_plan.EXTENDER else f"evenload-{folder}-tls",
            "namespace": namespace,
            "labels": {**labels, "app.kubernetes.io/part-of": "evenload"},
        },
        "type": "kubernetes.io/tls",
        "data": {name: base64.b64encode(texts[f"{folder}/{name}"].encode()).decode() for name in names},
    }


def _report(
    plan: certs_plan.Plan, directory: pathlib.Path, namespace: str, now_seconds: float, *, dry_run: bool
) -> exit_codes.Exit:
    """The next step on stderr, and the exit code: a CA that runs out soon is a finding, and so is work to do."""
    ends_seconds = plan.steps[0].until_seconds  # None: the CA is a new one
    left = certs_plan.CA_DAYS if ends_seconds is None else certs_plan.days_left(ends_seconds, now_seconds)
    soon = left < certs_plan.CA_NOTICE_DAYS
    if soon:
        output.say(f"warning: ca.crt runs out in {left} days: --replace-ca makes a new one (steps: docs/how-to/tls.md)")
    if dry_run and not plan.is_done:
        output.say("nothing was written; without --dry-run the lines above are done")
        return exit_codes.Exit.FINDINGS
    if not plan.is_done:
        output.say(
            f"next: {output.program()} certs -n {namespace} -d {directory} -o yaml | kubectl apply --server-side -f -\n"
            f"and bring {directory / certs_plan.SCHEDULER} to /etc/kubernetes/evenload where kube-scheduler runs"
        )
    return exit_codes.Exit.FINDINGS if soon else exit_codes.Exit.OK
