import pytest

from workslice_operator.settings import parse_settings


def test_flags_become_settings() -> None:
    settings = parse_settings(
        [
            "--namespace=ws",
            "--router-service=admin",
            "--router-selector=app=router,tier=edge",
            "--operator-selector=app=operator",
            '--model-owners={"tiny": "shop"}',
            "--pools-rolled-at-once=7",
            "--metrics-port=0",
            "--log-level=debug",
        ],
        {},
    )
    assert settings.installation.namespace == "ws"
    assert settings.installation.router_selector == {"app": "router", "tier": "edge"}
    assert settings.installation.operator_selector == {"app": "operator"}
    assert (settings.router_service, settings.metrics_port, settings.log_level) == ("admin", 0, "debug")
    assert settings.model_owners == {"tiny": "shop"}
    assert settings.pools_rolled_at_once == 7


def test_inside_a_pod_the_environment_names_namespace_and_process() -> None:
    settings = parse_settings([], {"POD_NAMESPACE": "ws", "POD_NAME": "operator-0"})
    assert (settings.installation.namespace, settings.identity) == ("ws", "operator-0")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "--namespace is needed"),
        (["--namespace=ws", "--router-selector=app"], "'app' is not KEY=VALUE"),
        (["--namespace=ws", "--model-owners={"], "not JSON"),
        (["--namespace=ws", "--model-owners=[]"], "expected an object"),
        (["--namespace=ws", "--log-level=loud"], "invalid choice"),
        (["--namespace=ws", "--pools-rolled-at-once=0"], "'0' is not a whole number of at least 1"),
        (["--namespace=ws", "--pools-rolled-at-once=many"], "'many' is not a whole number of at least 1"),
    ],
)
def test_wrong_flags_end_with_a_usage_message(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        parse_settings(arguments, {})
    assert ended.value.code == 2
    assert said in capsys.readouterr().err
