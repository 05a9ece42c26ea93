"""Every request code, asked by everybody who should not: nobody gets through but those who may."""

from __future__ import annotations

from pathlib import Path

import pytest

from embermq.access.rules import RULES
from embermq.errors import AccessDenied
from embermq.format.command import make_request
from embermq.model.codes import RequestCode
from tests.unit.access.requests import SAMPLES, Caller, a_request, an_access

CODES = sorted({*SAMPLES, *RequestCode})


def others(needs: tuple[str, ...]) -> list[str]:
    """The same actions on other things."""
    return [
        need.replace("orders", "other").replace("billing", "other").replace("Cluster:D", "Cluster:d") for need in needs
    ]


@pytest.mark.parametrize("code", RequestCode, ids=lambda code: f"{code}-{code.name}")
def test_a_code_has_a_rule_and_a_row_in_this_matrix(code: RequestCode) -> None:
    assert code in RULES
    assert code in SAMPLES


@pytest.mark.parametrize("code", CODES)
def test_without_credentials_nothing_is_allowed(code: int, tmp_path: Path) -> None:
    request = make_request(code, SAMPLES[code].fields, SAMPLES[code].data)
    with pytest.raises(AccessDenied, match="signed"):
        an_access(tmp_path, is_super=True).check(Caller(), request)


@pytest.mark.parametrize("code", CODES)
def test_with_a_wrong_secret_nothing_is_allowed(code: int, tmp_path: Path) -> None:
    request = a_request(code, SAMPLES[code], secret="another-secret")
    with pytest.raises(AccessDenied, match="another secret"):
        an_access(tmp_path, is_super=True).check(Caller(), request)


@pytest.mark.parametrize("code", [code for code in CODES if SAMPLES[code].needs])
def test_a_user_with_rights_to_other_things_is_refused(code: int, tmp_path: Path) -> None:
    sample = SAMPLES[code]
    whole_kind = [need for need in sample.needs if ":* " in need]
    grants = [need.replace(":*", ":orders") for need in whole_kind] or others(sample.needs)
    with pytest.raises(AccessDenied, match=f"request {code} "):
        an_access(tmp_path, *grants).check(Caller(), a_request(code, sample))


@pytest.mark.parametrize("code", [code for code in CODES if SAMPLES[code].needs])
def test_a_user_without_any_rights_is_refused(code: int, tmp_path: Path) -> None:
    with pytest.raises(AccessDenied, match="no permission"):
        an_access(tmp_path).check(Caller(), a_request(code, SAMPLES[code]))


@pytest.mark.parametrize("code", CODES)
def test_each_of_the_needs_counts_and_together_they_are_enough(code: int, tmp_path: Path) -> None:
    sample = SAMPLES[code]
    request = a_request(code, sample)
    an_access(tmp_path, *sample.needs).check(Caller(), request)
    for missing in sample.needs:
        rest = [need for need in sample.needs if need != missing]
        with pytest.raises(AccessDenied, match="no permission"):
            an_access(tmp_path, *rest).check(Caller(), request)


@pytest.mark.parametrize("code", [code for code in CODES if any("|" in need for need in SAMPLES[code].needs)])
def test_any_of_several_actions_is_enough(code: int, tmp_path: Path) -> None:
    sample = SAMPLES[code]
    alternatives = {action for need in sample.needs for action in need.split()[1].split("|")}
    for action in alternatives:
        grants = [
            f"{need.split()[0]} {action if action in need.split()[1].split('|') else need.split()[1]}"
            for need in sample.needs
        ]
        an_access(tmp_path, *grants).check(Caller(), a_request(code, sample))


@pytest.mark.parametrize("code", [code for code in CODES if SAMPLES[code].needs])
def test_other_actions_on_the_right_things_are_not_enough(code: int, tmp_path: Path) -> None:
    every = {"Pub", "Sub", "Create", "Update", "Delete", "Get", "List"}
    sample = SAMPLES[code]
    first, *rest = sample.needs
    resource, wanted = first.split()
    grants = [f"{resource} {'|'.join(sorted(every - set(wanted.split('|'))))}", *rest]
    with pytest.raises(AccessDenied, match="no permission"):
        an_access(tmp_path, *grants).check(Caller(), a_request(code, sample))


@pytest.mark.parametrize("code", CODES)
def test_a_super_user_may_do_everything(code: int, tmp_path: Path) -> None:
    access = an_access(tmp_path, is_super=True)
    access.check(Caller(), a_request(code, SAMPLES[code]))
    assert access.user_of(a_request(code, SAMPLES[code])).is_super
