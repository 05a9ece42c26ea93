"""A chain of files against a plain bytearray: whatever is done to both, they agree."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from embermq.files.file_chain import FileChain
from embermq.files.paths import file_name
from embermq.files.preparer import Preparer
from embermq.files.staging import ChunkPool
from embermq.files.write_buffer import WriteBufferPool

SIZE = 64


class ChainAgainstBytes(RuleBasedStateMachine):
    @initialize(prepared=st.booleans(), way=st.sampled_from(["mapped", "pooled", "staged"]), folders=st.integers(1, 2))
    def begin(self, prepared: bool, way: str, folders: int) -> None:
        self.root = Path(tempfile.mkdtemp())
        self.paths = [self.root / str(number) for number in range(folders)]
        self.preparer = Preparer(window=16) if prepared else None
        self.pool = WriteBufferPool(2, SIZE) if way == "pooled" else None
        self.chunks = ChunkPool() if way == "staged" else None
        self.bytes = bytearray()  # everything that was ever appended and not cut
        self.first = 0  # position of the first file
        self.flushed = 0
        self.chain = self.open()

    def open(self) -> FileChain:
        chain = FileChain(
            self.paths, SIZE, preparer=self.preparer, pool=self.pool, chunks=self.chunks, reserve_step=16, ahead=1
        )
        chain.load()
        return chain

    def teardown(self) -> None:
        if hasattr(self, "root"):
            self.chain.close()
            if self.preparer is not None:
                self.preparer.stop()
            shutil.rmtree(self.root)

    @rule(data=st.binary(min_size=1, max_size=3 * SIZE))
    def append(self, data: bytes) -> None:
        while data:
            file = self.chain.append_file()
            part = data[: file.size - file.written]
            assert file.append(part) == len(self.bytes)
            self.bytes += part
            data = data[len(part) :]
            self.chain.warm_ahead()

    @rule()
    def commit(self) -> None:
        assert self.chain.commit() == (self.flushed if self.chunks else len(self.bytes))

    @rule()
    def flush(self) -> None:
        self.flushed = len(self.bytes) if self.chunks else self.chain.readable_end
        assert self.chain.flush() == self.flushed

    @rule(share=st.floats(0, 1))
    def truncate(self, share: float) -> None:
        position = self.first + int(share * (len(self.bytes) - self.first))
        if self.chunks:
            self.flush()  # what waits in the file that is cut gets to the disk then, and it alone
        self.chain.truncate(position)
        del self.bytes[position:]
        self.flushed = min(self.flushed, position)

    @rule(share=st.floats(0, 1))
    def delete_before(self, share: float) -> None:
        position = int(share * len(self.bytes))
        self.chain.delete_before(position)
        last = max(len(self.bytes) - 1, 0) // SIZE * SIZE
        if self.chain.last is not None and self.chain.last.written == 0:
            last = self.chain.last.start
        self.first = max(self.first, min(position // SIZE * SIZE, last))

    @rule(count=st.integers(0, 2))
    @precondition(lambda self: self.chain.files)
    def ensure_next(self, count: int) -> None:
        self.chain.ensure_next([1] * count)

    @rule()
    def reopen(self) -> None:
        self.chain.commit()
        if self.chunks:
            self.chain.flush()
        self.chain.close()
        self.chain = self.open()
        self.chain.set_end(len(self.bytes))
        self.flushed = len(self.bytes)

    @invariant()
    def positions_agree(self) -> None:
        assert self.chain.end == len(self.bytes)
        assert self.chain.begin == (self.first if self.chain.files else 0)
        assert self.flushed == self.chain.flushed <= self.chain.readable_end <= self.chain.end

    @invariant()
    def every_readable_byte_agrees(self) -> None:
        readable = self.chain.readable_end
        for file in self.chain.files:
            expected = self.bytes[file.start : min(file.start + SIZE, readable)]
            assert (self.chain.select_rest(file.start) or b"") == expected
            assert (self.chain.select(file.start, len(expected)) or b"") == expected

    @invariant()
    def what_follows_the_end_is_zero_on_disk(self) -> None:
        for file in self.chain.files:
            on_disk = file.path.read_bytes()
            assert file.path.name == file_name(file.start)
            assert on_disk[file.written :] == bytes(SIZE - file.written)


ChainAgainstBytes.TestCase.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)
TestChainAgainstBytes = ChainAgainstBytes.TestCase
