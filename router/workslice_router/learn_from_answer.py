"""What the length of an answer teaches about the answers to come, and whether it was cut short."""

from workslice_router.admission import Lease
from workslice_router.data_path import DataPath
from workslice_router.request_body import RequestView
from workslice_router.usage import Usage


def learn_from_answer(
    data_path: DataPath, lease: Lease, view: RequestView, usage: Usage | None, events: int, *, ended_by_length: bool
) -> None:
    """From an answer with what the engine counted, if it did, or a stream of so many events; and count one that could not be as long as
    its request allowed. vLLM cuts an answer to its context without a word, even below max_tokens.
    """
    limit = view.max_tokens
    # vLLM sends an event for each token, or for a few of them when it is in a hurry.
    length = (events if usage is None else usage.completion_tokens) // view.choices
    cut = ended_by_length and (limit is None or (usage is not None and view.choices == 1 and length < limit))
    if cut:
        data_path.metrics.truncated(lease.pool.key)
    if length and limit != 0:
        # An answer that never ends finds more room nowhere. It must not send all others where there is most.
        endless = view.ignores_end or (cut and lease.pool.spec.context_tokens >= lease.plan.routes.context_tokens)
        data_path.estimator.answers.learn(
            lease.pool.spec.model, lease.class_name, length, bounded=limit is not None or endless, cut=cut
        )
