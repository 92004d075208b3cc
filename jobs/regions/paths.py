"""Names and paths of what belongs to one stream job in the Kubernetes API."""

from rules.regions.resource import ELEMENTS, GROUP, OPERATORS, REGIONS, VERSION

_API = f"/apis/{GROUP}/{VERSION}"

#: Labels of the resources, processing elements and pods of a job.
JOB, GENERATION, REGION = "streams.ibm.com/job", "streams.ibm.com/generation", "streams.ibm.com/cr"
ELEMENT, LAUNCH = "streams.ibm.com/pe", "streams.ibm.com/launch-count"

ALL_REGIONS, ALL_OPERATORS = f"{_API}/{REGIONS}", f"{_API}/{OPERATORS}"


def regions(namespace: str) -> str:
    return f"{_API}/namespaces/{namespace}/{REGIONS}"


def operators(namespace: str) -> str:
    return f"{_API}/namespaces/{namespace}/{OPERATORS}"


def elements(namespace: str) -> str:
    return f"{_API}/namespaces/{namespace}/{ELEMENTS}"


def jobs(namespace: str) -> str:
    return f"{_API}/namespaces/{namespace}/streamsjobs"


def pods(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/pods"


def services(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/services"


def deployments(namespace: str) -> str:
    return f"/apis/apps/v1/namespaces/{namespace}/deployments"


def leases(namespace: str) -> str:
    return f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"


def region_name(job: str, index: int) -> str:
    return f"{job}-cr{index}"


def operator_name(job: str) -> str:
    """The name of the operator's resource, its Deployment and its Lease."""
    return f"{job}-consistent-region-operator"


def service_name(job: str) -> str:
    return f"streams-{job}-consistentregion-api"


def elements_of(job: str) -> str:
    """The selector of a job's processing elements that are in some region."""
    return f"{REGION}=true,{JOB}={job}"


def pods_of(job: str) -> str:
    return f"app=streams,svc=pe,{elements_of(job)}"
