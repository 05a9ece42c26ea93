"""The one place where a request is allowed or refused.

    who       the access key of the request and a signature made with its secret
    may it    each thing that the request needs (rules.py) must be allowed by the user's policy

Every request goes through it before any handler sees it. A super user may do everything, a user
without a policy nothing, and who is unknown learns only that.
"""

from __future__ import annotations

import hmac
import logging
from collections.abc import Iterable, Mapping
from typing import Final

from embermq.access.accounts import Accounts
from embermq.access.needs import Need, topic_need
from embermq.access.rules import needs_of
from embermq.errors import AccessDenied
from embermq.format.command import Command
from embermq.format.signature import ACCESS_KEY, SECURITY_TOKEN, SIGNATURE, sign
from embermq.model.access import Action, User
from embermq.rpc.peer import Peer

log = logging.getLogger(__name__)

# Go signs without the token; Java adds its zone after signing.
_SOMETIMES_UNSIGNED: Final = (frozenset({SECURITY_TOKEN}), frozenset({"__ZONE_NAME", "__ZONE_MODE"}))
_NOBODYS_SECRET: Final = "no user has this one"


class Access:
    """Checks who sends a request and whether they may. `check` is what a Router calls."""

    def __init__(self, accounts: Accounts, *, cluster: str) -> None:
        self.accounts = accounts
        self._cluster = cluster

    def check(self, peer: Peer, request: Command) -> None:
        """Return if the request is allowed. Raises AccessDenied."""
        user = self._authenticate(peer, request)
        if not user.is_super:
            for need in needs_of(request, cluster_name=self._cluster):
                self._require(user, need, peer, request)

    def check_topic(self, peer: Peer, request: Command, topic: str, *actions: Action) -> None:
        """For handlers that learn the topic only from the message they found: may this user read it?

        `request` went through `check` already. Without `actions`, Sub or Get is enough.
        """
        user = self.user_of(request)
        if not user.is_super:
            self._require(user, topic_need(topic, actions or (Action.SUB, Action.GET)), peer, request)

    def user_of(self, request: Command) -> User:
        """Who sent a request that went through `check` already. Raises AccessDenied if they are gone."""
        user = self.accounts.find(request.fields.get(ACCESS_KEY, ""))
        if user is None or not user.is_enabled:
            raise AccessDenied("the user of this request was deleted or disabled")
        return user

    def _authenticate(self, peer: Peer, request: Command) -> User:
        fields = request.fields
        name, signature = fields.get(ACCESS_KEY), fields.get(SIGNATURE)
        if not name or not signature:
            raise AccessDenied(
                "this server needs signed requests, and this one is not; give the client an access key and its secret"
            )
        user = self.accounts.find(name)
        # The same work and the same words, whether the user is there or not: neither tells who exists.
        is_signed = _is_signed(request, signature, user.secret if user else _NOBODYS_SECRET)
        if user is not None and user.is_enabled and is_signed:
            return user
        cause = "unknown" if user is None else "disabled" if not user.is_enabled else "wrong secret"
        log.info("access refused peer=%s user=%r cause=%s", peer.peer, name[:100], cause)
        raise AccessDenied(
            f"access key {name[:100]!r} is not known, or the request was signed with another secret; check both"
        )

    def _require(self, user: User, need: Need, peer: Peer, request: Command) -> None:
        policy, address = self.accounts.policy(user.name), peer.peer.address
        if not any(policy.allows(need.resource, action, address) for action in need.actions):
            raise AccessDenied(
                f"user {user.name!r} has no permission for request {request.code} from {address}: it needs "
                f"{' or '.join(need.actions)} on {str(need.resource)[:300]!r}; a super user can add that to its policy"
            )


def _is_signed(request: Command, signature: str, secret: str) -> bool:
    """Whether the signature fits, for any of the ways in which clients make it."""
    given = signature.encode(errors="replace")
    for fields in _as_signed(request.fields):
        try:
            expected = sign(fields, request.data, secret, version=request.version)
        except UnicodeEncodeError:  # half a character in a field, or in the secret: nobody can have signed that
            return False
        if hmac.compare_digest(expected.encode(), given):
            return True
    return False


def _as_signed(fields: Mapping[str, str]) -> Iterable[Mapping[str, str]]:
    """The fields, and what is left of them without those that some clients do not sign."""
    yield fields
    added = [names for names in _SOMETIMES_UNSIGNED if names & fields.keys()]
    for names in added:
        yield _without(fields, names)
    if len(added) > 1:
        yield _without(fields, frozenset().union(*added))


def _without(fields: Mapping[str, str], names: frozenset[str]) -> dict[str, str]:
    return {name: value for name, value in fields.items() if name not in names}
