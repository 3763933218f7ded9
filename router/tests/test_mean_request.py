"""What a pool's requests are like, learned from those that run."""

from hypothesis import given
from hypothesis import strategies as st
from routed_pools import SHORT, Bench, replicas, table_of

from workslice_router.mean_request import MeanRequest, first_mean_request, mean_request

MEAN = MeanRequest(1000.0, 200.0)


@given(st.lists(st.tuples(st.integers(0, 50), st.floats(0, 1e5), st.floats(0, 1e4)), max_size=50))
def test_the_mean_request_stays_among_what_was_seen(seen: list[tuple[int, float, float]]) -> None:
    mean = MEAN
    for requests, prompt, answer in seen:
        total = requests * (prompt + answer)
        mean = mean_request(mean, requests, total, requests * (prompt + answer / 2), total)
    prompts = [MEAN.prompt, *(prompt for requests, prompt, _ in seen if requests)]
    answers = [MEAN.answer, *(answer for requests, _, answer in seen if requests)]
    assert min(prompts) - 1 <= mean.prompt <= max(prompts) + 1
    assert min(answers) - 1 <= mean.answer <= max(answers) + 1


def test_the_size_is_unknown_until_a_request_is_seen_and_then_follows_what_runs() -> None:
    mean = first_mean_request(4000)
    assert (mean.prompt, mean.size, mean_request(mean, 0, 0, 0, 0)) == (1000.0, 0.0, mean)
    mean = mean_request(mean, 3, 3000, 2500, 3000)
    assert mean.size == 1000.0
    for _ in range(30):
        mean = mean_request(mean, 5, 10_000, 9000, 10_000)
    assert 1990 < mean.size < 2000


def test_a_pool_learns_from_all_its_replicas_whether_their_engines_tell_their_load_or_not() -> None:
    bench = Bench(table_of((SHORT, replicas("a", "b"))))
    for _ in range(3):
        bench.lease(prompt_size=600, max_tokens=10)
    for _ in range(40):
        bench.now += 1.1
        bench.admission.tick()
    learned = bench.table.pools[SHORT.key].mean_request
    assert 550 < learned.prompt < 750
    assert learned.answer < 20
    assert abs(learned.prompt + learned.answer - learned.size) < 1
