"""The store from end to end, on a temporary directory: send, read, find, crash, recover."""

from __future__ import annotations

import tempfile
from pathlib import Path

from embermq import Message, open_store


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "data")
        with open_store(path, log_file_size=1 << 20, reserve_bytes=0) as store:
            receipt = store.put(Message("orders", b'{"amount": 12}', tags="eu", keys=["o-1"]))
            print(f"put      {receipt.topic}/{receipt.queue} offset {receipt.offset}, id {receipt.message_id}")
            store.put_many(Message("orders", b"order %d" % number, keys=[f"o-{number}"]) for number in range(2, 1001))
            for message in store.get("orders", queue=receipt.queue, offset=receipt.offset, limit=2):
                print(f"get      offset {message.offset}: {message.body.decode()} tags={message.tags}")
            found = store.query("orders", key="o-500")
            print(f"query    key o-500: {found[0].body.decode()}")
            state = store.state()
            print(f"state    {state.puts.messages} messages, {state.log_flushed} of {state.log_written} bytes on disk")
        with open_store(path, reserve_bytes=0) as store:
            recovered = store.state().recovered
            print(f"reopen   began at {recovered.begin} ({recovered.reason}), log ends at {recovered.scan.end}")


if __name__ == "__main__":
    main()
