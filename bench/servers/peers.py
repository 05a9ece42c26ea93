"""The servers by name.

ember-async      EmberMQ, answers before the disk has it; flushed at least every 500 ms
ember-sync       EmberMQ, answers when the disk has it
ember-plain      EmberMQ without its engine, answers before the disk has it
redis-everysec   Redis streams, append-only file synced once a second
redis-always     Redis streams, append-only file synced before every answer
nats             NATS JetStream, file store with its defaults
rocketmq-async   RocketMQ's own broker, ASYNC_FLUSH
rocketmq-sync    RocketMQ's own broker, SYNC_FLUSH
kafka            Kafka, one node, acknowledged by the leader
"""

from __future__ import annotations

from bench.servers import ember, kafka, nats, redis, rocketmq
from bench.servers.server import Peer

_JAVA = ("java", "javac", "mvn")
_REDIS = ("redis-server",)


def _ember(name: str, title: str, durability: str, *, engine: bool = True) -> Peer:
    return Peer(name, title, ember.start_ember(durability, engine=engine), ember.version, check=ember.check_store)


def _redis(name: str, title: str, sync: str) -> Peer:
    return Peer(name, title, redis.start_redis(sync), redis.version, needs=_REDIS)


def _rocketmq(name: str, flush: str) -> Peer:
    start = rocketmq.start_rocketmq(flush)
    return Peer(name, f"RocketMQ {flush}", start, rocketmq.version, needs=_JAVA, stays=True)


PEERS = {
    peer.name: peer
    for peer in (
        _ember("ember-async", "EmberMQ", "async"),
        _ember("ember-sync", "EmberMQ sync", "sync"),
        _ember("ember-plain", "EmberMQ without engine", "async", engine=False),
        _redis("redis-everysec", "Redis everysec", "everysec"),
        _redis("redis-always", "Redis always", "always"),
        Peer("nats", "NATS JetStream", nats.start_nats, nats.version, needs=("nats-server",)),
        _rocketmq("rocketmq-async", "ASYNC_FLUSH"),
        _rocketmq("rocketmq-sync", "SYNC_FLUSH"),
        Peer("kafka", "Kafka", kafka.start_kafka, kafka.version, needs=_JAVA, stays=True),
    )
}
