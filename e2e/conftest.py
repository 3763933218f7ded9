"""One cluster, one installation and two pools for all end-to-end tests: they cost a minute, so tests share them."""

import re
import sys
from collections.abc import Callable, Generator, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # the demo installs Workslice; tests use the same code
sys.path.insert(1, str(Path(__file__).resolve().parents[1] / "router" / "tests"))  # the scripted Kubernetes API
sys.path.insert(2, str(Path(__file__).resolve().parents[1] / "charts" / "tests"))  # why a right is there that few use

import pytest
from demo.cluster_choice import ClusterChoice, cluster_choice
from demo.cluster_client import Cluster
from demo.example_manifests import NAMESPACE, SLICES, apply_examples, example_manifests
from demo.installation import cluster_tool, demo_slices, models_directory, provide_images, start_cluster
from demo.pool_state import ready_pools
from demo.waiting import wait_until

import brought_up_ahead
from bare_api import BareApi, bare_api
from failure_report import failure_report
from faulty_api import FaultyApi, faulty_api
from installed import MODEL, SPARE_NODE, Installation, install
from machine_access import acts_on_the_machine
from scratch import Scratch
from tests_on_all_cores import is_end_to_end
from tests_on_all_cores import pytest_xdist_make_scheduler as pytest_xdist_make_scheduler  # a hook of this conftest
from workslice_cluster.cluster_error import ClusterError

if TYPE_CHECKING:
    from xdist.workermanage import WorkerController


@pytest.fixture(scope="session")
def cluster(request: pytest.FixtureRequest) -> Cluster:
    """The cluster that CLUSTER chooses: the embedded one by default."""
    brought_up_ahead.wait()
    try:
        found = start_cluster()
        models_directory(MODEL)
    except ClusterError as error:
        if cluster_choice() is ClusterChoice.EMBEDDED:
            raise
        stop_all(request.session, str(error))  # every test would say the same
    request.config.stash[_CLUSTER] = found
    return found


@pytest.fixture(scope="session")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BareApi]:
    """An API without nodes, for tests of what the operator writes; it has nothing to do with the cluster."""
    with bare_api(tmp_path_factory.mktemp("api")) as running:
        yield running


@pytest.fixture(scope="module")
def proxy(bare: BareApi) -> Iterator[FaultyApi]:
    """A proxy in front of it, of which a test may say what goes wrong."""
    with faulty_api(bare) as running:
        yield running


@pytest.fixture(scope="session")
def models_folder() -> Path:
    """The folder of models on the node."""
    return models_directory(MODEL)


@pytest.fixture(scope="session")
def installation(cluster: Cluster, request: pytest.FixtureRequest) -> Installation:
    """CRDs by kubectl, then the chart: operator and router are ready."""
    built = provide_images(cluster)
    if (slices := demo_slices(cluster)) != SLICES:
        stop_all(
            request.session, f"the tests take the slices {' and '.join(SLICES)}; the nodes offer {' and '.join(slices)}"
        )
    return install(cluster, built)


@pytest.fixture(scope="session")
def restore_pools(installation: Installation, models_folder: Path) -> Callable[[], None]:
    """Return what applies the examples again and waits until both pools are Ready."""
    text = example_manifests(installation.images.engine, models_folder, MODEL)

    def restore() -> None:
        apply_examples(installation.cluster, text, MODEL)
        wait_until(
            "the pools of the examples to be Ready",
            lambda: ready_pools(installation.cluster, NAMESPACE, "short", "long"),
            seconds=300,
            tell=print,
        )

    return restore


@pytest.fixture(scope="session")
def pools(installation: Installation, restore_pools: Callable[[], None]) -> Installation:
    """The installation with the pools `short` and `long` of the examples Ready."""
    restore_pools()
    return installation


@pytest.fixture
def scratch(installation: Installation, models_folder: Path, request: pytest.FixtureRequest) -> Iterator[Scratch]:
    """A namespace of the test's own."""
    yield from _scratch(installation, models_folder, request.node.name)


@pytest.fixture(scope="module")
def module_scratch(
    installation: Installation, models_folder: Path, request: pytest.FixtureRequest
) -> Iterator[Scratch]:
    """A namespace that the tests of a file share."""
    yield from _scratch(installation, models_folder, Path(request.node.name).stem)


@pytest.fixture(scope="module")
def spare_node(installation: Installation) -> Iterator[str]:
    """A second node with slices and images of its own; it goes with the tests of the file."""
    cluster_tool("node", "add", SPARE_NODE)
    yield SPARE_NODE
    cluster_tool("node", "remove", SPARE_NODE)


def stop_all(session: pytest.Session, reason: str) -> NoReturn:
    """End the whole run and say why."""
    session.shouldstop = reason  # a worker of pytest-xdist tells the others and whoever looks
    pytest.exit(reason, returncode=1)


def _scratch(installation: Installation, models_folder: Path, title: str) -> Iterator[Scratch]:
    name = "e2e-" + re.sub(r"[^a-z0-9]+", "-", title.lower().removeprefix("test_"))[:36].strip("-")
    made = Scratch(installation.cluster, name, installation.images.engine, models_folder)
    made.delete()
    made.create()
    yield made
    made.release()


_CLUSTER = pytest.StashKey[Cluster]()
_REPORTS = pytest.StashKey[int]()
_AHEAD = pytest.StashKey["subprocess.Popen[bytes]"]()
JUDGES_THE_RUN = "test_rights_are_used.py"
MOST_REPORTS = 5  # one fault may fail every test; the first reports say what the others would


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the state of the cluster to the report of a failed test, while it is still as the test left it."""
    report = yield
    found = item.config.stash.get(_CLUSTER, None)
    reports = item.config.stash.get(_REPORTS, 0)
    if report.failed and found is not None and reports < MOST_REPORTS:
        item.config.stash[_REPORTS] = reports + 1
        report.sections.append(("state of the cluster", failure_report(found)))
    return report


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test of this folder, so that `-m "not e2e"` leaves out what needs a cluster; what judges the whole run comes last.

    On another cluster, tests that act on the embedded cluster's machine are skipped, and the summary says so.
    """
    try:
        choice = cluster_choice()
    except ClusterError as error:
        raise pytest.UsageError(str(error)) from error
    items.sort(key=lambda item: item.path.name == JUDGES_THE_RUN)
    skip = pytest.mark.skip(reason=f"acts on the machine under the embedded cluster, and CLUSTER is {choice}")
    for item in items:
        if item.path.parent == Path(__file__).parent:
            item.add_marker("e2e")
            if acts_on_the_machine(item):
                item.add_marker("embedded")
            if item.get_closest_marker("embedded") and choice is not ClusterChoice.EMBEDDED:
                item.add_marker(skip)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Bring up what these tests need while tests that need nothing run before them."""
    if not hasattr(session.config, "workerinput"):  # of several workers' tests the hook below knows
        _bring_up_ahead(session.config, [item.nodeid for item in session.items])


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_node_collection_finished(node: "WorkerController", ids: Sequence[str]) -> None:
    """The same, where pytest-xdist hands out the tests."""
    if _AHEAD not in node.config.stash:
        _bring_up_ahead(node.config, ids)


def _bring_up_ahead(config: pytest.Config, tests: Sequence[str]) -> None:
    needs = [is_end_to_end(test, config.rootpath) for test in tests]
    begin_now = any(needs) and not needs[0] and not config.option.collectonly
    if begin_now and cluster_choice() is ClusterChoice.EMBEDDED:
        config.stash[_AHEAD] = brought_up_ahead.begin()


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Leave nothing running when the tests ended before they needed it."""
    if ahead := session.config.stash.get(_AHEAD, None):
        ahead.terminate()
        ahead.wait()
