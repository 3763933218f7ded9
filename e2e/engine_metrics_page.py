"""The numbers at an engine's /metrics."""

from demo.waiting import NotYet, wait_until
from prometheus_client.parser import text_string_to_metric_families

from engine_processes import EngineProcess


def samples(engine: EngineProcess) -> dict[tuple[str, tuple[str, ...]], float]:
    """The samples of /metrics: the sum of each name over its label sets."""
    with engine.client() as client:
        response = client.get("/metrics")
    found: dict[tuple[str, tuple[str, ...]], float] = {}
    for family in text_string_to_metric_families(response.text):
        for sample in family.samples:
            bound = sample.labels.get("le", "")
            key = (sample.name, (*sorted(sample.labels), *(["le=" + bound] if bound else [])))
            found[key] = found.get(key, 0) + sample.value
    return found


def value(engine: EngineProcess, name: str) -> float:
    """The sum of one metric."""
    return sum(number for (found, _), number in samples(engine).items() if found == f"vllm:{name}")


def wait_for_value(engine: EngineProcess, name: str, wanted: float, *, seconds: float = 10) -> None:
    def look() -> None:
        if (seen := value(engine, name)) != wanted:
            raise NotYet(f"{name} is {seen}")

    wait_until(f"{name} to be {wanted}", look, seconds=seconds, every=0.05)
