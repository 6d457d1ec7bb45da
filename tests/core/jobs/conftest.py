"""A real Ray cluster of this machine."""

import signal
import socket

import pytest

WORKERS = 3
PORTS = "metrics_agent_port metrics_export_port dashboard_agent_listen_port runtime_env_agent_port"


def find_free_ports(count):
    """Ports that nobody listens at."""
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


@pytest.fixture
def unused_port():
    return find_free_ports(1)[0]


@pytest.fixture(scope="session")
def cluster():
    """The address of a cluster of three workers. With fixed ports Ray need not wait for its
    helpers, which takes longer than it allows where the machine is busy."""
    ray = pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    names = PORTS.split()
    ports = dict(zip(names, find_free_ports(len(names)), strict=True))
    head = {"num_cpus": WORKERS, "include_dashboard": False, "object_store_memory": 2**27, **ports}
    started = Cluster(initialize_head=True, head_node_args=head)
    ray.init(address=started.address, log_to_driver=False)
    yield started.address
    ray.shutdown()
    started.shutdown()


@pytest.fixture(autouse=True)
def ctrl_c_is_heard():
    """Also where the tests run in the background of a shell, which has them ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
