"""Recording and alert rules: what promtool says of them, and that they speak of metrics that there are."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from jobs.service import described

RULES = Path(__file__).parents[2] / "dashboards" / "prometheus"
needs_promtool = pytest.mark.skipif(shutil.which("promtool") is None, reason="not installed: promtool")


def _promtool(*arguments: str) -> None:
    done = subprocess.run(["promtool", *arguments], cwd=RULES, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@needs_promtool
def test_the_rules_are_valid() -> None:
    _promtool("check", "rules", "--lint=all", "--lint-fatal", "rules.yaml")


@needs_promtool
def test_the_configuration_to_try_them_with_is_valid() -> None:
    _promtool("check", "config", "prometheus.yml")


@needs_promtool
def test_each_alert_is_raised_when_it_should_be_and_only_then() -> None:
    _promtool("test", "rules", "rules_test.yaml")


def test_every_alert_is_tested_both_ways() -> None:
    groups = yaml.safe_load((RULES / "rules.yaml").read_text())["groups"]
    alerts = {rule["alert"] for group in groups for rule in group["rules"] if "alert" in rule}
    tested = yaml.safe_load((RULES / "rules_test.yaml").read_text())["tests"]
    cases = [case for test in tested for case in test.get("alert_rule_test", ())]
    quiet = {case["alertname"] for case in cases if not case["exp_alerts"]}
    raised = {case["alertname"] for case in cases if case["exp_alerts"]}
    assert quiet == alerts
    assert raised == alerts


def test_every_metric_of_a_rule_is_one_of_the_service() -> None:
    known = {described.name(family) for family in described.families()}
    for metric in re.findall(r"\bcolocation_\w+", (RULES / "rules.yaml").read_text()):
        assert re.sub(r"_(bucket|count|sum)$", "", metric) in known, metric
