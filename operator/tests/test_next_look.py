from pool_facts import INSTALLATION, NOW, make_deployment, make_observed, make_pod

from workslice_operator.plan import plan


def test_a_replica_whose_volumes_are_not_mounted_is_looked_at_again_soon_since_no_event_of_the_pool_tells_why() -> None:
    observed = make_observed(deployment=make_deployment(), pods=(make_pod(age=30, sandboxed=False),))
    assert plan(observed, INSTALLATION, NOW).requeue_after == 10
