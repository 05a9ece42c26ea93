"""An object store for tests: moto's S3, in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.builders import wait_until
from tests.free_ports import free_port

KEY, SECRET, BUCKET = "some-key", "some-secret", "stores"


class ObjectStore:
    """Buckets at a port of this machine."""

    def __init__(self, port: int) -> None:
        from pyarrow import fs

        self.endpoint = f"127.0.0.1:{port}"
        self._system = fs.S3FileSystem(
            access_key=KEY,
            secret_key=SECRET,
            endpoint_override=self.endpoint,
            scheme="http",
            region="us-east-1",
            allow_bucket_creation=True,
            connect_timeout=5,
        )

    def is_there(self) -> bool:
        try:
            self._system.create_dir(BUCKET)
        except OSError:
            return False
        return True

    def copy(self, path: Path) -> str:
        """Copy a store into the bucket, and give its address, for any process of this machine."""
        for file in sorted(path.rglob("*")):
            if file.is_file():
                with self._system.open_output_stream(f"{BUCKET}/{path.name}/{file.relative_to(path)}") as output:
                    output.write(file.read_bytes())
        return self.address_of(path.name)

    def address_of(self, name: str) -> str:
        where = f"endpoint_override={self.endpoint}&scheme=http&region=us-east-1"
        return f"s3://{KEY}:{SECRET}@{BUCKET}/{name}?{where}"


@contextmanager
def object_store(log: Path) -> Iterator[ObjectStore]:
    """One that runs."""
    port = free_port()
    command = [sys.executable, "-W", "ignore", "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    with log.open("w") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output)
    try:
        store = ObjectStore(port)
        wait_until(lambda: store.is_there() or process.poll() is not None, seconds=60)
        assert process.poll() is None, log.read_text()
        yield store
    finally:
        process.kill()
        process.wait()
