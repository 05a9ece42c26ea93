"""Topics of a server that speaks RocketMQ's remoting protocol, EmberMQ or RocketMQ: made as mqadmin makes them."""

from __future__ import annotations

import json
import socket
import struct
from collections.abc import Sequence

from bench.servers.server import PeerError

UPDATE_AND_CREATE_TOPIC = 17


def make_topics(port: int, names: Sequence[str], queues: int) -> None:
    """Make every topic, over one connection. Raises PeerError if one is refused."""
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection, connection.makefile("rb") as answers:
        for name in names:
            connection.sendall(_request(name, queues))
            size, header_size = struct.unpack(">II", answers.read(8))
            answer = json.loads(answers.read(size - 4)[: header_size & 0xFFFFFF])
            if answer["code"] != 0:
                raise PeerError(f"no topic {name}: {answer}")


def _request(name: str, queues: int) -> bytes:
    fields = {"topic": name, "defaultTopic": "TBW102", "readQueueNums": queues, "writeQueueNums": queues, "perm": 6}
    fields |= {"topicFilterType": "SINGLE_TAG", "topicSysFlag": 0, "order": "false"}
    texts = {key: str(value) for key, value in fields.items()}
    header = {"code": UPDATE_AND_CREATE_TOPIC, "extFields": texts, "flag": 0, "language": "JAVA", "opaque": 1}
    text = json.dumps({**header, "version": 479, "serializeTypeCurrentRPC": "JSON"}).encode()
    return struct.pack(">II", 4 + len(text), len(text)) + text
