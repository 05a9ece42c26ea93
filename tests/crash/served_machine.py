"""A model of a broker behind a socket, so that kernels take what they can of what its clients send."""

from __future__ import annotations

from embermq.format.frame import FrameLimits
from embermq.kernels import loading
from embermq.model.message import Host
from embermq.net.server import Server, bind, host_of
from tests.crash.broker_machine import BrokerMachine
from tests.unit.broker.both_ways import Caller


class ServedMachine(BrokerMachine):
    """To be named before the machine that it is mixed into."""

    def opened(self) -> None:
        self.run(self._serve())
        super().opened()

    async def _serve(self) -> None:
        loading.load()
        self.callers: list[Caller] = []
        self.server = Server(self.broker.router.receive, on_close=self.broker.connection_closed)
        listener = bind(Host("127.0.0.1", 0))
        self.host = host_of(listener)
        self.server.start(listener)
        fast = self.broker.make_fast(self.server.received, FrameLimits())
        self.server.use(fast.take, fast)

    def connect(self) -> Caller:
        """A connection, until the broker stops or its owner closes it."""
        caller = self.run(Caller.connect(self.host))
        self.callers.append(caller)
        return caller

    def close(self) -> None:
        self.run(self._stop_serving())
        super().close()

    async def _stop_serving(self) -> None:
        for caller in self.callers:
            await caller.close()
        self.server.stop_accepting()
        self.server.stop_reading()
        await self.server.stop()
