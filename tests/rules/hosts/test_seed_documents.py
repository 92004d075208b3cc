"""The documents that host constraints were designed by, put right: expressions as a list, containers with a name."""

import kubernetes_validate
import pytest
import yaml

from rules.hosts.job import read
from tests.support.hosting import host, hosts, manifests, placed

FIELDS = """
app: streams
streams.ibm.com/job: {job}
streams.ibm.com/pe: {pe}
"""
POOL = """
nodeAffinity:
  requiredDuringSchedulingIgnoredDuringExecution:
    nodeSelectorTerms:
    - matchExpressions:
      - {key: streams.ibm.com/hostpool, operator: In, values: [source]}
"""
TERM = """
{kind}:
  requiredDuringSchedulingIgnoredDuringExecution:
  - labelSelector:
      matchExpressions:
      - {{key: {key}, operator: In, values: [{value}]}}
    topologyKey: kubernetes.io/hostname
"""
COLOCATED = "streams.ibm.com/hostcolocation.9034FF9E2B8F00B47A44DFAF3C2A37176C101E2A"
EXLOCATED = "streams.ibm.com/hostexlocation.B76ADE163D874CC5BC0F408D70CFC165667EEC5F"
ISOLATED = "streams.ibm.com/hostisolation.E53E8D5300C878019A997D4CFB7201C7ED2EE003"
TEMPLATE = {
    "spec": {
        "containers": [
            {
                "name": "pe",
                "args": ["/opt/ibm/streams/system/impl/bin/streams-k8s-bootstrap"],
                "image": "us.icr.io/spl_team/streams-runtime:6.release",
            }
        ]
    }
}
MAIN = """
composite Main {
graph
    stream<uint64 num> Source = Beacon() {
        config placement: partitionIsolation;
    }
    stream<uint64 num> Work = Functor(Source) {
        config placement: partitionIsolation;
    }
    () as Sink = Custom(Work) {
        config placement: partitionIsolation,
                          hostIsolation;
    }
}
"""
POOLED = """
composite Main {
graph
    stream<uint64 num> Source = Beacon() {
        config placement: host(MyPool);
    }
    config hostPool: MyPool = createPool({tags=["source"]}, Sys.Shared);
}
"""
TOKEN = 'stream<Type> Out = Functor(In) { config placement: %s("%s"); }'


def _pods(spl, job="parallel", nodes=()):
    """The pods in the form of the documents, where tokens stand alone in a term."""
    document = {"job": job, "spl": spl, "scope": "token", "template": TEMPLATE}
    pods = manifests(placed(read(document, "job.yaml"), [*nodes, *hosts("n1", "n2", "n3")]))
    for pod in pods:
        kubernetes_validate.validate(pod, "1.37", strict=True)
        assert pod["spec"]["containers"] == TEMPLATE["spec"]["containers"]
    return pods


def _labels(job, pe, **more):
    return {**yaml.safe_load(FIELDS.format(job=job, pe=pe)), **more}


def test_a_tagged_pool():
    [pod] = _pods(POOLED, nodes=[host("n0", {"streams.ibm.com/hostpool": "source"})])
    assert pod["metadata"]["labels"] == _labels("parallel", "parallel-0")
    assert pod["spec"]["affinity"] == yaml.safe_load(POOL)


@pytest.mark.parametrize(
    ("clause", "value", "kind", "key"),
    [
        ("hostColocation", "together", "podAffinity", COLOCATED),
        ("hostExlocation", "apart", "podAntiAffinity", EXLOCATED),
    ],
)
def test_a_token(clause, value, kind, key):
    [pod] = _pods(TOKEN % (clause, value))
    assert pod["metadata"]["labels"] == _labels("parallel", "parallel-0") | {key: value}
    assert pod["spec"]["affinity"] == yaml.safe_load(TERM.format(kind=kind, key=key, value=value))


def test_source_work_and_sink_alone():
    source, work, sink = _pods(MAIN, job="ex")
    for number, pod in enumerate((source, work)):
        assert pod["metadata"]["labels"] == _labels("ex", f"ex-{number}") | {ISOLATED: "Sink"}
        assert "affinity" not in pod["spec"]
    assert sink["metadata"]["labels"] == _labels("ex", "ex-2")
    expected = TERM.format(kind="podAntiAffinity", key=ISOLATED, value="Sink")
    assert sink["spec"]["affinity"] == yaml.safe_load(expected)
