"""The command-line options of a Prometheus client, and the client that they describe.

annotator and descheduler decorate their click commands with `connection_options` and `series_options` beside
`runtime.options.service_options` (which brings `--prometheus URL`) and receive one `Connection` as the keyword
argument `connection`, and how series name nodes as `labels`; `connect` makes the door. Secrets come by file only: a
command line is readable by every user of the machine.
"""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from promql import errors
from promql.http import DEFAULT_TIMEOUT_SECONDS
from promql.queries import identity
from runtime import options

if TYPE_CHECKING:
    from promql.http import client, proxied_transport


@dataclasses.dataclass(frozen=True, slots=True)
class Connection:
    """How to speak to Prometheus; the files are read at every request or handshake, not here."""

    prometheus_timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS
    prometheus_token_file: Path | None = None
    prometheus_user: str | None = None
    prometheus_password_file: Path | None = None
    prometheus_ca_file: Path | None = None
    prometheus_certificate_file: Path | None = None
    prometheus_key_file: Path | None = None
    prometheus_header: tuple[str, ...] = ()

    def connect(self, url: str | None, fetch: "proxied_transport.Fetch | None" = None) -> "client.Client":
        """The door at `url`, through `fetch` if given; ConfigError when the address or anything given is unusable."""
        if not url:
            raise errors.ConfigError(
                "no Prometheus address: give --prometheus URL, for example http://prometheus-operated.monitoring:9090"
            )
        from promql.http import client  # brings the HTTP library, which --help need not wait for

        return client.connect(
            url,
            timeout_seconds=self.prometheus_timeout_seconds,
            token_file=self.prometheus_token_file,
            username=self.prometheus_user,
            password_file=self.prometheus_password_file,
            ca_file=self.prometheus_ca_file,
            certificate_file=self.prometheus_certificate_file,
            key_file=self.prometheus_key_file,
            headers=dict(map(_header, self.prometheus_header)),
            fetch=fetch,
        )


def series_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a click command's function; it gains the keyword argument `labels` (`identity.SeriesLabels`)."""
    decorators = [
        click.option(
            "--node-label", default="instance", show_default=True, help="The label of series that names a node."
        ),
        click.option(
            "--node-selector",
            default="",
            metavar="MATCHERS",
            help="""More matchers for node-exporter's series, e.g. 'job="node-exporter"'.""",
        ),
        click.option(
            "--pod-selector",
            default="",
            metavar="MATCHERS",
            help="""More matchers for cAdvisor's series, e.g. 'cluster="a"'.""",
        ),
    ]
    return options.gather(command, keyword="labels", kind=identity.SeriesLabels, options=decorators)


def connection_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a click command's function; it gains the keyword argument `connection`."""
    file = click.Path(dir_okay=False, path_type=Path)
    seconds = click.FloatRange(min=0, min_open=True)
    decorators = [
        click.option(
            "--prometheus-timeout",
            "prometheus_timeout_seconds",
            type=seconds,
            default=DEFAULT_TIMEOUT_SECONDS,
            show_default=True,
            metavar="SECONDS",
            help="Longest wait for one answer.",
        ),
        click.option("--prometheus-token-file", type=file, metavar="FILE", help="Bearer token, read at every query."),
        click.option("--prometheus-user", metavar="NAME", help="For basic authentication, with the password file."),
        click.option("--prometheus-password-file", type=file, metavar="FILE", help="Password, read at every query."),
        click.option(
            "--prometheus-ca-file", type=file, metavar="FILE", help="CA certificates to trust instead of the system's."
        ),
        click.option("--prometheus-certificate-file", type=file, metavar="FILE", help="Client certificate for mTLS."),
        click.option("--prometheus-key-file", type=file, metavar="FILE", help="Its key."),
        click.option(
            "--prometheus-header", multiple=True, metavar="'NAME: VALUE'", help="Further header, such as X-Scope-OrgID."
        ),
    ]
    return options.gather(command, keyword="connection", kind=Connection, options=decorators)


def _header(text: str) -> tuple[str, str]:
    name, colon, value = text.partition(":")
    if not colon or not name.strip() or "\n" in text or "\r" in text:
        raise errors.ConfigError("a --prometheus-header is not usable: expected one line 'NAME: VALUE'")
    return name.strip(), value.strip()
