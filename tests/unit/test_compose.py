"""docker-compose.yml is parsed and its commands are held to the services' own options; no engine runs it."""

import importlib
import pathlib
import re
import shlex

import click
import pytest
import yaml

COMPOSE = yaml.safe_load((pathlib.Path(__file__).parents[2] / "docker-compose.yml").read_text(encoding="utf-8"))


def arguments(command: str, kubeconfig: pathlib.Path) -> tuple[str, list[str]]:
    """The module and the arguments of `python -m MODULE …` inside a service's command, with its variables filled in."""
    line = command.split("python -m ")[1].rstrip('" ')
    line = re.sub(r"\$\{PROMETHEUS_URL[^}]*\}", "http://127.0.0.1:9090", line).replace("/kubeconfig", str(kubeconfig))
    module, *rest = shlex.split(line)
    return module, rest


@pytest.mark.parametrize("name", ["annotator", "extender", "descheduler"])
def test_a_service_starts_with_options_it_understands(name: str, tmp_path: pathlib.Path) -> None:
    kubeconfig = tmp_path / "config"
    kubeconfig.write_text("{}", encoding="utf-8")
    module, options = arguments(COMPOSE["services"][name]["command"], kubeconfig)
    assert module == name
    main = importlib.import_module(f"{name}.__main__").main
    assert isinstance(main, click.Command)
    context = main.make_context(name, options)
    assert str(context.params["policy"]).endswith("deploy/policies/default.yaml")


def test_the_three_services_are_all_there_is() -> None:
    assert set(COMPOSE["services"]) == {"annotator", "extender", "descheduler"}
