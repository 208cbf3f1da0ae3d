"""Read `/metrics` like a scraper."""

from prometheus_client.parser import text_string_to_metric_families

from tests.support.service import Client, wait_until


def scraped(client: Client, name: str, **labels: str) -> float | None:
    """The value of the series with these labels; None if there is none."""
    answer = client.get("/metrics")
    assert answer.status_code == 200, answer.text
    for family in text_string_to_metric_families(answer.text):
        for sample in family.samples:
            if sample.name == name and labels.items() <= sample.labels.items():
                return float(sample.value)
    return None


def wait_for_series(client: Client, name: str, **labels: str) -> float:
    """The value of a series, once it exists: an answer is cached for ten seconds."""
    wait_until(lambda: scraped(client, name, **labels) is not None, pause=0.5, what=f"{name} {labels} is there")
    value = scraped(client, name, **labels)
    assert value is not None
    return value
