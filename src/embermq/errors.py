"""Everything that can go wrong, in one tree.

    EmberError
    ├── StoreError            the files of this machine
    │   ├── CorruptRecord     bytes that are not what their place calls for
    │   ├── OutOfRange        a position where nothing is written, or nothing any more
    │   ├── FileFull          the caller rolls to the next file
    │   ├── FileSealed        no more appends here: a sync of this file failed
    │   ├── WrongFileSize     not the size this store makes
    │   ├── ForeignFile       a file that no store makes
    │   ├── MissingFile       a gap between two files
    │   ├── WrongQueueKind    a queue that is not of the kind its topic calls for
    │   ├── StoreMissing      no store in this directory
    │   ├── DamagedRecord     a record that cannot be read, among others that can
    │   ├── DataLoss          messages that were promised and are gone
    │   ├── StoreReadOnly     the directory cannot be written
    │   ├── StoreLocked       another process owns the directory
    │   ├── StoreClosed       used after close
    │   └── StoreUnwritable   puts are refused; reads go on
    │       ├── DiskFull      space is short; puts come back by themselves
    │       ├── DiskFailed    the disk refused something; nothing that was acknowledged is in danger
    │       ├── SyncFailed    the disk did not keep what it was given; until restart
    │       ├── StoreBusy     the disk is behind; try again
    │       ├── StagedFull    as much is staged as may be; try again, or publish
    │       └── FlushTimeout  written, but not known to be on disk in time
    ├── RequestError          a request we refuse; nothing was changed
    │   ├── TopicNotFound
    │   ├── GroupNotFound
    │   ├── MessageNotFound
    │   ├── TransactionNotFound   no open transaction where a producer ends one
    │   ├── TransactionTooLate    ended after the time that its producer asked for
    │   ├── NotPopped         the message is not, or no longer, with a consumer
    │   ├── StagedMissing     what is to be published is not, or not all, there
    │   ├── NotSubscribed     the group does not read this topic
    │   ├── SubscriptionOutdated  a consumer knows of a filter that its group has not told yet
    │   ├── FiltersOff        the broker does not filter so
    │   ├── NotOnline         no such client is connected
    │   ├── NotLeader         another broker takes the messages of a static queue
    │   ├── NotPermitted
    │   │   └── AccessDenied  who asks is not known, or may not
    │   ├── NotSupported      a request we do not serve
    │   ├── IllegalField      a field of a request that is missing or makes no sense
    │   ├── IllegalFilter     an expression that cannot be read
    │   ├── IllegalAttribute  an attribute that a topic cannot have
    │   ├── IllegalGroup      a name that no consumer group may have
    │   ├── IllegalRecall     a message that cannot be recalled, or no longer
    │   └── IllegalMessage
    │       ├── IllegalTopic
    │       ├── IllegalQueue
    │       ├── IllegalProperty
    │       ├── BodyTooLarge
    │       ├── PropertiesTooLarge
    │       └── TooManyKeys
    ├── SettingsError         a setting that cannot be
    │   └── UnknownColumn     a column that messages do not have
    ├── JobError              a job over whole stores: see jobs/errors.py and archive/errors.py
    ├── EngineError           compiled code that cannot be had; plain code does its work
    │   ├── EngineMissing     numba is not installed, or not wanted
    │   ├── CompileFailed     no code came out
    │   └── CacheUnsafe       others could put code into the folder that it is kept in
    └── TransportError        the network, or a peer that talks nonsense
        ├── BadFrame          bytes that are no frame; the connection is closed
        ├── ConnectionLost    it was closed while an answer was waited for, or cannot be made
        ├── CallTimeout       no answer in time
        ├── NoRoute           no broker serves the topic
        ├── ReadLost          a broker went away while it was read from, and did not come back
        └── Refused           the other side answered with an error

Catch the narrowest one you can act on; let the rest pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path


class EmberError(Exception):
    """Whatever EmberMQ raises on purpose."""


class StoreError(EmberError):
    """The files of this machine."""


class CorruptRecord(StoreError):
    """The bytes at a position do not form what should be there."""

    def __init__(self, position: int, reason: str) -> None:
        super().__init__(f"corrupt record at position {position}: {reason}")
        self.position, self.reason = position, reason


class OutOfRange(StoreError):
    """Nothing can be read at this position."""

    def __init__(self, place: object, *, asked: int, begin: int, end: int) -> None:
        super().__init__(f"{place}: nothing at {asked}; it holds [{begin}, {end})")
        self.asked, self.begin, self.end = asked, begin, end


class FileFull(StoreError):
    """What is to be appended does not fit into this file."""


class FileSealed(StoreError):
    """This file takes no more appends, because a sync of it failed."""


class WrongFileSize(StoreError):
    """A file that does not have the size of its kind."""

    def __init__(self, path: Path | str, *, found: int, expected: int) -> None:
        super().__init__(
            f"{path}: {found} bytes found, {expected} expected; open the store with the file sizes it was made with, "
            "or restore the file"
        )
        self.path, self.found, self.expected = path, found, expected


class ForeignFile(StoreError):
    """A file whose name no store gives."""

    def __init__(self, path: Path | str, reason: str) -> None:
        super().__init__(f"{path}: {reason}; move it out of the store")
        self.path = path


class MissingFile(StoreError):
    """A file that must be there, between two that are."""

    def __init__(self, path: Path | str) -> None:
        super().__init__(f"{path} is missing, though files before and after it are there; restore it")
        self.path = path


class WrongQueueKind(StoreError):
    """A queue directory that is not of the kind its topic calls for."""

    def __init__(self, path: Path, *, found: str, expected: str) -> None:
        wanted = f"its topic calls for {expected}; correct the topic's queue.type"
        super().__init__(f"{path}: the queue is {found}, {wanted}")


class StoreMissing(StoreError):
    """There is no store in this directory."""

    def __init__(self, path: Path | str, reason: str = "no such directory") -> None:
        super().__init__(f"no store at {path}: {reason}")
        self.path = path


class DamagedRecord(StoreError):
    """Bytes inside the log that are no record, though records must be there."""

    def __init__(self, path: Path | str, *, position: int, reason: str) -> None:
        super().__init__(
            f"{path}: damaged record at log position {position}: {reason}; "
            "`ember store verify` tells what else is, and what is left can be read with failOnDataLoss=false"
        )
        self.path, self.position, self.reason = path, position, reason


class DataLoss(StoreError):
    """Messages that were there when a read was planned, or that it was told to find, and cannot be read."""

    def __init__(self, place: Path | str, *, what: str, reason: str) -> None:
        super().__init__(
            f"{place}: {what} cannot be read: {reason}; what is left can be read with failOnDataLoss=false"
        )
        self.place, self.what, self.reason = place, what, reason


class StoreReadOnly(StoreError):
    """The directory cannot be written."""

    def __init__(self, path: Path, cause: OSError) -> None:
        super().__init__(
            f"{path} cannot be written ({cause.strerror or cause}); correct its permissions, "
            "or only read it with `ember store info`, `dump` and `verify`"
        )
        self.path = path


class StoreLocked(StoreError):
    """Another process, or another store object of this one, owns the directory."""


class StoreClosed(StoreError):
    """The store was closed."""

    def __init__(self, path: Path) -> None:
        super().__init__(f"the store at {path} is closed; open it again")


class StoreUnwritable(StoreError):
    """Puts are refused for now; reads go on."""


class DiskFull(StoreUnwritable):
    """There is less space than the store must leave or needs."""

    def __init__(self, path: Path, *, free: int, limit: str) -> None:
        super().__init__(
            f"disk full: {path} has {free} bytes free, limit {limit}; "
            "free some space or shorten the retention, puts work again within a second of it"
        )
        self.path = path
        self.free = free


class DiskFailed(StoreUnwritable):
    """The disk refused what the store asked of it, other than for want of space; what it has is safe."""

    def __init__(self, path: object, cause: OSError) -> None:
        super().__init__(f"{path}: {cause.strerror or cause}; check the disk, then try again")
        self.path = path
        self.cause = cause


class SyncFailed(StoreUnwritable):
    """The disk reported that it did not keep what it was given."""

    def __init__(self, path: Path, cause: OSError) -> None:
        super().__init__(
            f"{path}: sync failed ({cause.strerror or cause}); what came after the last good sync may be lost. "
            "Puts are refused until the store is opened again; check the disk first"
        )
        self.path = path
        self.cause = cause


class StoreBusy(StoreUnwritable):
    """The disk is behind by more than the store may hold in memory."""

    def __init__(self, path: Path, *, behind: int, limit: int, waited_ms: int) -> None:
        super().__init__(
            f"busy: {behind} bytes wait for the disk of {path}, limit {limit}, waited {waited_ms} ms; try again later"
        )
        self.behind = behind


class StagedFull(StoreUnwritable):
    """As much is staged and not yet published as the broker holds."""

    def __init__(self, path: Path, *, size: int, held: int, limit: int) -> None:
        super().__init__(
            f"{path}: no room for {size} bytes more, {held} are staged, limit {limit}; "
            "publish or discard batches, write smaller ones, or raise staged_max_bytes"
        )


class FlushTimeout(StoreUnwritable):
    """The message is in the log, but was not known to be on disk in time; it may survive or not."""

    def __init__(self, path: Path, *, position: int, waited_ms: int) -> None:
        super().__init__(
            f"{path}: position {position} was not on disk after {waited_ms} ms; the message may survive a crash or not"
        )
        self.position = position


class RequestError(EmberError):
    """A request we refuse; nothing was changed."""


class TopicNotFound(RequestError):
    """There is no such topic, and it is not made by itself."""

    def __init__(self, topic: str, nearest: str | None = None) -> None:
        short, near = topic[:300], f"; the nearest name is {nearest!r}" if nearest else ""
        how = "its group makes it" if topic[:1] == "%" else f"make it with `ember topic create {short}`"
        super().__init__(f"no topic {short!r}{near}; {how}")
        self.topic = topic


class GroupNotFound(RequestError):
    """There is no such consumer group, and it is not made by itself."""

    def __init__(self, group: str) -> None:
        super().__init__(f"no group {group[:300]!r}; make it with `ember group create {group[:300]}`")
        self.group = group


class MessageNotFound(RequestError):
    """No such message, or no longer."""


class TransactionNotFound(RequestError):
    """No transaction is open where a producer ends one."""


class TransactionTooLate(RequestError):
    """A transaction is ended after the time that its producer had asked for; it is asked about instead."""


class NotPopped(RequestError):
    """An ack, or a wish for more time, for a message that is not, or no longer, with a consumer."""


class StagedMissing(RequestError):
    """What is to be published is not staged here, or not all of it."""

    def __init__(self, job: str, task: str, *, found: tuple[int, ...], expected: tuple[int, ...]) -> None:
        (chunks, messages), (wanted_chunks, wanted_messages) = found, expected
        super().__init__(
            f"task {task!r} of job {job!r} has {chunks} chunks with {messages} messages here, {wanted_chunks} with "
            f"{wanted_messages} were to be published; it expired, was discarded or published: write the batch again"
        )


class NotSubscribed(RequestError):
    """The group does not read this topic, as far as its heartbeats tell."""


class SubscriptionOutdated(RequestError):
    """A consumer knows of a newer filter than its group's heartbeats told."""


class FiltersOff(RequestError):
    """Filters of this kind are switched off."""


class NotOnline(RequestError):
    """No such client is connected."""


class NotLeader(RequestError):
    """Another broker takes the messages of a queue of a static topic."""


class NotPermitted(RequestError):
    """A permission, of the broker, the topic or the group, does not allow it."""


class AccessDenied(NotPermitted):
    """Who asks is not known, or may not do this."""


class NotSupported(RequestError):
    """A request that we do not serve."""


class IllegalField(RequestError):
    """A field of a request that is missing or makes no sense."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(f"field {name!r} of the request: {reason}")
        self.name = name


class IllegalFilter(RequestError):
    """A filter expression that cannot be read; `at` is the index of the character where, if it is one place."""

    def __init__(self, reason: str, *, at: int | None = None) -> None:
        super().__init__(reason)
        self.at = at


class IllegalGroup(RequestError):
    """A name that no consumer group may have."""

    def __init__(self, group: str, reason: str) -> None:
        super().__init__(f"illegal group {group[:300]!r}: {reason}")
        self.group = group


class IllegalAttribute(RequestError):
    """An attribute that a topic cannot have, or that cannot be changed."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(f"attribute {name[:200]!r}: {reason}")
        self.name = name


class IllegalRecall(RequestError):
    """A recall of something that is no waiting message, or no longer."""


class IllegalMessage(RequestError):
    """A message that cannot be stored as it is."""


class IllegalTopic(IllegalMessage):
    """A name that no topic may have."""

    def __init__(self, topic: str, reason: str) -> None:
        super().__init__(f"illegal topic {topic[:300]!r}: {reason}")
        self.topic = topic


class IllegalQueue(IllegalMessage):
    """A queue that its topic does not have."""

    def __init__(self, topic: str, queue: int, count: int) -> None:
        super().__init__(f"illegal queue {queue} of topic {topic!r}: it has the queues 0 to {count - 1}")


class IllegalProperty(IllegalMessage):
    """A property that cannot be stored, or that is not the user's to set."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(f"illegal property {name[:300]!r}: {reason}")


class BodyTooLarge(IllegalMessage):
    """A body over the limit."""

    def __init__(self, topic: str, *, size: int, limit: int) -> None:
        super().__init__(f"body of {size} bytes for topic {topic!r}, limit {limit}; split it or raise max_message_size")


class PropertiesTooLarge(IllegalMessage):
    """Properties, tags and keys that together pass what a record can hold."""

    def __init__(self, topic: str, *, size: int, limit: int) -> None:
        hint = "put large values into the body"
        super().__init__(f"properties of {size} bytes for topic {topic!r}, limit {limit}; {hint}")


class TooManyKeys(IllegalMessage):
    """More keys than one message may be filed under."""

    def __init__(self, topic: str, *, count: int, limit: int) -> None:
        super().__init__(f"{count} keys for one message of topic {topic!r}, limit {limit} (max_keys)")


class SettingsError(EmberError):
    """A setting that cannot be; says which, what was found and what is allowed."""


class UnknownColumn(SettingsError):
    """A column that messages do not have."""

    def __init__(self, name: str, *, nearest: str | None, known: Sequence[str]) -> None:
        hint = f"the nearest is {nearest!r}" if nearest else f"there are {', '.join(known)}"
        super().__init__(f"no column {name[:300]!r}; {hint}")
        self.name = name


class EngineError(EmberError):
    """Compiled code cannot be had; everything works without it, only slower."""


class EngineMissing(EngineError):
    """What compiles is not there, or was switched off."""


class CompileFailed(EngineError):
    """The process that compiles ended without code."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(f"kernels could not be compiled: exit code {code}: {reason}; `ember warm-up` tries again")


class CacheUnsafe(EngineError):
    """A folder for compiled code that others could put code into."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"{path}: {reason}; compiled code is run, so only its owner may write there (mode 0700)")


class TransportError(EmberError):
    """The network, or a peer that talks nonsense."""


class BadFrame(TransportError):
    """Bytes that are no frame; the connection they came on is closed."""


class ConnectionLost(TransportError):
    """A connection that was closed while an answer was waited for, or cannot be made."""


class CallTimeout(TransportError):
    """No answer came in time."""


class NoRoute(TransportError):
    """No broker serves the topic."""


class ReadLost(TransportError):
    """A broker went away in the middle of a read, and did not come back in time."""

    def __init__(self, address: str, *, what: str, cause: BaseException, waited_s: float) -> None:
        super().__init__(
            f"broker {address}: {what} could not be read: {cause}; tried again for {waited_s:g} s; "
            "start the broker and read again"
        )
        self.address = address


class Refused(TransportError):
    """The other side answered with an error: its code and what it said."""

    def __init__(self, code: int, remark: str | None, *, asked: str) -> None:
        super().__init__(f"{asked}: refused with code {code}: {remark or 'no reason given'}")
        self.code = code
        self.remark = remark
