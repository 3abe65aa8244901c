"""docs/start/fifteen-minutes.md: the real Helm takes the values of each platform, and they reach the objects."""

import pathlib

import pytest
import yaml

from tests import pages
from tests.contract import helm_client

pytestmark = pytest.mark.cluster
PAGE = pages.ROOT / "docs" / "start" / "fifteen-minutes.md"
FILES = {block.file: yaml.safe_load("\n".join(block.lines)) for block in pages.blocks(PAGE) if block.file}
OWN = FILES["values.yaml"]
PLATFORMS = {name: document for name, document in FILES.items() if "kind" not in document}


@pytest.mark.parametrize("name", PLATFORMS)
def test_helm_takes_the_values_of_a_platform(tmp_path: pathlib.Path, name: str) -> None:
    values = helm_client.merged(OWN, PLATFORMS[name])
    text = helm_client.Helm("helm", tmp_path).template(values)
    objects = {(one["kind"], one["metadata"]["name"]): one for one in helm_client.documents(text)}
    settings = objects["ConfigMap", "evenload-settings"]["data"]
    assert settings["PROMETHEUS_URL"] == values["prometheus"]["url"]
    assert settings["NODE_SELECTOR"] == values["prometheus"].get("nodeSelector", "")
    for service in ("annotator", "descheduler"):
        (container,) = objects["Deployment", f"evenload-{service}"]["spec"]["template"]["spec"]["containers"]
        assert set(values.get(service, {}).get("extraArgs", ())) <= set(container["args"])
    assert (("Deployment", "evenload-scheduler") in objects) == (name == "managed.yaml")
