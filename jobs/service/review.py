"""AdmissionReview v1 as the API server sends and expects it; only the fields that are used are decoded.

The object is kept as raw JSON, so that whoever needs it decodes just what they need.
"""

from typing import Annotated, Any

import msgspec
from msgspec import Meta

API_VERSION = "admission.k8s.io/v1"
KIND = "AdmissionReview"


#: The API server's uids have 36 characters. One names a decision in memory, logs and the history, where "" is none.
Uid = Annotated[str, Meta(min_length=1, max_length=128)]


class GroupVersionKind(msgspec.Struct, frozen=True, gc=False):
    """What kind of object a review is about; the core group is ""."""

    kind: str
    version: str = ""
    group: str = ""


class AdmissionRequest(msgspec.Struct, frozen=True, rename="camel"):
    """One request for admission; *object* is null for DELETE."""

    uid: Uid
    kind: GroupVersionKind
    operation: str = ""
    namespace: Annotated[str, Meta(max_length=253)] = ""
    name: str = ""
    sub_resource: str = ""
    dry_run: bool | None = None
    object: msgspec.Raw = msgspec.field(default_factory=lambda: msgspec.Raw(b"null"))

    @property
    def creates_pod(self) -> bool:
        """Whether this is the creation of a pod itself, not of its status, binding or eviction."""
        return (
            self.operation == "CREATE" and self.kind.kind == "Pod" and not self.kind.group and not self.sub_resource
        )


class AdmissionReview(msgspec.Struct, frozen=True, rename="camel"):
    """A review as it is posted to the webhook."""

    api_version: str
    kind: str
    request: AdmissionRequest


class AdmissionResponse(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The answer: a patch is JSON, which goes out in base64; *warnings* are shown to the person who creates."""

    uid: str = msgspec.field()
    allowed: bool = msgspec.field()
    patch_type: str = ""
    patch: bytes = b""
    warnings: tuple[str, ...] = ()
    audit_annotations: dict[str, str] = {}


class AdmissionAnswer(msgspec.Struct, frozen=True, rename="camel"):
    """An answered review."""

    response: AdmissionResponse
    api_version: str = API_VERSION
    kind: str = KIND


class _UidOnly(msgspec.Struct):
    uid: Uid


class _Skeleton(msgspec.Struct, rename="camel"):
    api_version: str
    kind: str
    request: _UidOnly


class NotAReview(ValueError):
    """A body that is no AdmissionReview v1 with a uid; the message says why, *cause* in a word."""

    def __init__(self, message: str, cause: str = "not_a_review") -> None:
        super().__init__(message)
        self.cause = cause


_review = msgspec.json.Decoder(AdmissionReview)
_skeleton = msgspec.json.Decoder(_Skeleton)
_encoder = msgspec.json.Encoder()


def decode(body: bytes) -> AdmissionReview:
    """Decode a posted review; raises `msgspec.MsgspecError` or `NotAReview`."""
    review = _review.decode(body)
    if review.api_version != API_VERSION or review.kind != KIND:
        raise NotAReview(f"expected {KIND} {API_VERSION}, got {review.kind} {review.api_version}")
    return review


def uid_of(body: bytes) -> str:
    """Return the uid of a review that cannot be decoded in full; raises `NotAReview` where there is none."""
    try:
        skeleton = _skeleton.decode(body)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise NotAReview(f"not an {KIND}: {error}", _cause(body, error)) from None
    if skeleton.api_version != API_VERSION or skeleton.kind != KIND:
        raise NotAReview(f"expected {KIND} {API_VERSION}, got {skeleton.kind} {skeleton.api_version}")
    return skeleton.request.uid


def _cause(body: bytes, error: Exception) -> str:
    if not body:  # or a client that went away
        return "empty"
    try:
        body.decode()
    except UnicodeDecodeError:
        return "not_utf8"
    other = isinstance(error, (msgspec.ValidationError, RecursionError))
    return "not_a_review" if other else "not_json"


def allow(uid: str, patch: bytes = b"", warnings: tuple[str, ...] = ()) -> bytes:
    """Encode the answer that admits, with a JSON patch where there is one."""
    kind = "JSONPatch" if patch else ""
    return _encoder.encode(AdmissionAnswer(AdmissionResponse(uid, True, kind, patch, warnings)))


def encode_patch(operations: Any) -> bytes:
    """Encode patch operations; an empty list is no patch."""
    return _encoder.encode(operations) if operations else b""
