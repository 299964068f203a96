"""What is below `deploy`, as far as it can be tried without containers: by the tools it is for."""

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from holdfast.cli.commands import COMMANDS
from holdfast.server.config import Config, configure
from holdfast.server.variables import ELSEWHERE, VARIABLES
from holdfast.settingsfile import CONFIG, SECRETS

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
CHART = DEPLOY / "helm" / "holdfast"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
NAMES = {each.name for each in VARIABLES} | ELSEWHERE | {CONFIG} | {f"{n}_FILE" for n in SECRETS}
BESIDE = Path(sys.executable).parent
"""Where wheels put their programs."""

PODS = ("Deployment", "Job")
SWITCHED_ON = (
    *("ingress.enabled=true", "ingress.tlsSecretName=i", "tls.secretName=t", "settings.workers=2"),
    *("settings.max_upload_bytes=1073741824", "settings.works=false", "environment.AWS_REGION=1"),
    *("settings.console_hosts={a.example,b.example}", "settings.prefix=/a/b"),
)


def run(*words: str, **more: Any) -> str:
    done = subprocess.run(words, capture_output=True, text=True, check=False, **more)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def read_settings(text: str, folder: Path) -> Config:
    """Returns what a server makes of a file of settings."""
    (folder / "holdfast.toml").write_text(text)
    return configure({CONFIG: str(folder / "holdfast.toml")}, data=str(folder))


def rendered(*options: str) -> list[dict[str, Any]]:
    helm = str(BESIDE / "helm")
    text = run(helm, "template", "prod", str(CHART), "--is-upgrade", *options)
    return [document for document in yaml.safe_load_all(text) if document]


@pytest.mark.parametrize("given", [(), SWITCHED_ON], ids=["as it is", "switched on"])
def test_the_chart_makes_servers_that_can_write_next_to_nothing(
    given: tuple[str, ...], tmp_path: Path
) -> None:
    documents = rendered(*(word for each in given for word in ("--set", each)))
    run(str(BESIDE / "helm"), "lint", "--strict", str(CHART))
    kinds = [each["kind"] for each in documents]
    assert sorted(set(kinds) - {"Ingress"}) == [
        *("ConfigMap", "Deployment", "Job", "PodDisruptionBudget", "Service", "ServiceAccount")
    ]
    assert ("Ingress" in kinds) == bool(given)
    for pod in (each["spec"]["template"]["spec"] for each in documents if each["kind"] in PODS):
        (container,) = pod["containers"]
        assert pod["securityContext"]["runAsNonRoot"]
        assert container["securityContext"]["readOnlyRootFilesystem"]
        assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
        # Kubernetes would set HOLDFAST_PORT for a Service of that name.
        assert pod["enableServiceLinks"] is False
        assert {each["name"] for each in container["env"]} <= NAMES
        assert set(container["args"]) <= set(COMMANDS)
        mounted = {each["name"] for each in container["volumeMounts"]}
        assert mounted == {each["name"] for each in pod["volumes"]}
    for each in documents:
        if each["kind"] == "ConfigMap":
            config = read_settings(each["data"]["holdfast.toml"], tmp_path)
            assert config.objects_url == "s3://holdfast/packs"
            if given:
                assert (config.workers, config.max_upload_bytes, config.works) == (
                    2,
                    1 << 30,
                    False,
                )
                assert config.console_hosts == ("https://a.example", "https://b.example")
                assert config.prefix == "/a/b"
    (server,) = (each for each in documents if each["kind"] == "Deployment")
    container = server["spec"]["template"]["spec"]["containers"][0]
    scheme = "HTTPS" if given else "HTTP"
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        assert container[probe]["httpGet"]["scheme"] == scheme
        path = container[probe]["httpGet"]["path"]
        assert path.startswith("/a/b/health/" if given else "/health/")
    # All of a stop fits into the time until the pod is killed.
    assert server["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] == 45


def test_servers_of_the_chart_send_spans_where_they_are_told_to() -> None:
    where = "OTEL_EXPORTER_OTLP_ENDPOINT"
    for given in ([], ["--set", f"spans.{where}=http://collector:4318"]):
        pods = [each for each in rendered(*given) if each["kind"] in PODS]
        made = {each["kind"]: each["spec"]["template"]["spec"]["containers"][0] for each in pods}
        assert "command" not in made["Job"]
        assert made["Deployment"].get("command") == (
            ["opentelemetry-instrument", "holdfast"] if given else None
        )
        assert [e["value"] for e in made["Deployment"]["env"] if e["name"] == where] == (
            ["http://collector:4318"] if given else []
        )
    text = (DEPLOY / "Dockerfile").read_text()
    # The one that is in the image: what sets spans up would look for another.
    assert "OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf" in text
    assert re.search(r"'\.\[[\w,]*\botel\b[\w,]*\]'", text)
    assert "opentelemetry-exporter-otlp-proto-http" in " ".join(
        PROJECT["optional-dependencies"]["otel"]
    )


def test_the_chart_is_of_this_version() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert chart["appVersion"] == chart["version"] == PROJECT["version"]


def test_two_composed_servers_are_given_what_they_take(tmp_path: Path) -> None:
    folder = tmp_path / "compose"
    shutil.copytree(DEPLOY / "compose", folder)
    # However it was made.
    (folder / "secrets").mkdir(mode=0o755, exist_ok=True)
    for _ in range(2):
        run("sh", str(folder / "make-secrets.sh"))
        made = {path.name: path.read_text() for path in (folder / "secrets").iterdir()}
    composed = yaml.safe_load((folder / "compose.yaml").read_text())
    assert {path["file"] for path in composed["secrets"].values()} == {
        f"./secrets/{name}" for name in made
    }
    (identity,) = json.loads(made["s3_identities"])["identities"]
    key = identity["credentials"][0]
    assert (key["accessKey"], key["secretKey"]) == (made["s3_access_key"], made["s3_secret_key"])
    assert len({*made.values()}) == len(made)
    assert (folder / "secrets").stat().st_mode & 0o077 == 0
    ignored = (ROOT / ".gitignore").read_text().splitlines()
    assert f"/{(DEPLOY / 'compose' / 'secrets').relative_to(ROOT)}/" in ignored
    servers = [composed["services"][name] for name in ("server-1", "server-2", "migrate")]
    for server in servers:
        assert server["read_only"]
        assert server["environment"].keys() <= NAMES
        in_a_container = {
            name: path.replace("/run/secrets", str(folder / "secrets"))
            for name, path in server["environment"].items()
        }
        config = configure({**in_a_container, CONFIG: str(folder / "holdfast.toml")})
        assert config.secrets_key == made["secrets_key"]
        assert config.database_url == "postgresql://holdfast@postgres/holdfast"


def test_the_proxy_understands_what_it_is_told() -> None:
    run(str(BESIDE / "caddy"), "validate", "--config", str(DEPLOY / "compose" / "Caddyfile"))
    shown = run(str(BESIDE / "caddy"), "adapt", "--config", str(DEPLOY / "compose" / "Caddyfile"))
    assert re.findall(r'"dial":"([^"]+)"', shown) == ["server-1:7433", "server-2:7433"]


def test_the_image_has_what_it_is_built_of_and_runs_as_nobody_special() -> None:
    text = (DEPLOY / "Dockerfile").read_text()
    assert re.findall(r"^USER (.+)$", text, re.MULTILINE) == ["10001:10001"]
    assert set(re.findall(r"\b(HOLDFAST_\w+)=", text)) <= NAMES
    (extras,) = re.findall(r"'\.\[([\w,]+)\]'", text)
    assert set(extras.split(",")) <= PROJECT["optional-dependencies"].keys()
    taken = re.findall(r"^!(.+)$", (DEPLOY / "Dockerfile.dockerignore").read_text(), re.MULTILINE)
    assert [name for name in taken if not (ROOT / name).exists()] == []
    needed = {"src", "scripts", "hatch_build.py", "pyproject.toml", PROJECT["readme"]}
    assert needed | set(PROJECT["license-files"]) == set(taken)


def test_what_commands_need_of_systemd_stands_behind_what_it_loosens() -> None:
    lines = (DEPLOY / "systemd" / "holdfast.service").read_text().splitlines()
    strict = {line.partition("=")[0]: at for at, line in enumerate(lines) if line[:1].isupper()}
    loose = {line[1:].partition("=")[0]: at for at, line in enumerate(lines) if line[:1] == "#"}
    both = strict.keys() & loose.keys() - {"Environment"}
    assert {"RestrictNamespaces", "ProtectControlGroups", "SystemCallFilter"} <= both
    assert [name for name in both if loose[name] < strict[name]] == []


def test_systemd_understands_the_unit(tmp_path: Path) -> None:
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("there is no systemd-analyze")
    text = (DEPLOY / "systemd" / "holdfast.service").read_text()
    assert set(re.findall(r"\b(HOLDFAST_\w+)=[%/]", text)) <= NAMES
    program = tmp_path / "holdfast"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    unit = tmp_path / "holdfast.service"
    text = re.sub(r"^#([A-Z]\w+=)", r"\1", text, flags=re.MULTILINE)  # All that it offers.
    unit.write_text(text.replace("/opt/holdfast/bin/holdfast", str(program)))
    environ = {**os.environ, "SYSTEMD_LOG_LEVEL": "warning"}
    done = subprocess.run(
        [analyze, "verify", "--man=no", str(unit)],
        capture_output=True, text=True, check=False, env=environ,
    )  # fmt: skip
    # Of other units on the machine it may complain as well.
    ours = [line for line in done.stderr.splitlines() if "holdfast.service" in line]
    assert ours == []
