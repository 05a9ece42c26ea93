from __future__ import annotations

from embermq.model.flags import Permission, SysFlag


def test_a_transaction_has_one_of_four_states_in_two_bits() -> None:
    states = {SysFlag.PREPARED, SysFlag.COMMITTED, SysFlag.ROLLED_BACK, 0}
    assert {flag & SysFlag.TRANSACTION_MASK for flag in range(16)} == states


def test_compressions_differ_within_their_mask_and_touch_nothing_else() -> None:
    kinds = {SysFlag.LZ4, SysFlag.ZSTD, SysFlag.ZLIB}
    assert len(kinds) == 3
    assert all(kind & SysFlag.COMPRESSION_MASK == kind for kind in kinds)


def test_no_two_single_flags_share_a_bit() -> None:
    flags = [
        SysFlag.COMPRESSED,
        SysFlag.MULTI_TAG,
        SysFlag.TRANSACTION_MASK,
        SysFlag.BORN_HOST_V6,
        SysFlag.STORE_HOST_V6,
        SysFlag.NEED_UNWRAP,
        SysFlag.INNER_BATCH,
        SysFlag.COMPRESSION_MASK,
    ]
    assert sum(flags) == 0x7FF


def test_reading_and_writing_together_are_six() -> None:
    assert Permission.READ | Permission.WRITE == 6
