"""Users and policies over the wire: what `mqadmin createUser`, `listAcl` and the like ask for.

Only super users change anything here, and only they are told secrets: whoever could change a policy could give
himself everything. `Access.check` has let in those who may look.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import wraps
from typing import Final

from embermq.access.access import Access
from embermq.errors import AccessDenied, CorruptRecord, IllegalField
from embermq.format.access_json import decode_policy, decode_user, parse_subject, policy_members, user_members
from embermq.format.command import Command, make_answer
from embermq.format.json_fields import Fields, parse_fields
from embermq.format.wire_json import encode_body
from embermq.model.access import Pattern, Policy, User
from embermq.rpc.fields import read_text
from embermq.rpc.peer import Peer
from embermq.rpc.router import Handler

CREATE_USER: Final = 3001
UPDATE_USER: Final = 3002
DELETE_USER: Final = 3003
GET_USER: Final = 3004
LIST_USERS: Final = 3005
CREATE_POLICY: Final = 3006
UPDATE_POLICY: Final = 3007
DELETE_POLICY: Final = 3008
GET_POLICY: Final = 3009
LIST_POLICIES: Final = 3010


class AccessHandlers:
    """Answers requests about users and policies."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._accounts = access.accounts

    def routes(self) -> dict[int, Handler]:
        return {
            CREATE_USER: self._for_super_users(self.create_user),
            UPDATE_USER: self._for_super_users(self.update_user),
            DELETE_USER: self._for_super_users(self.delete_user),
            GET_USER: self.get_user,
            LIST_USERS: self.list_users,
            CREATE_POLICY: self._for_super_users(self.add_policy),
            UPDATE_POLICY: self._for_super_users(self.add_policy),
            DELETE_POLICY: self._for_super_users(self.delete_policy),
            GET_POLICY: self.get_policy,
            LIST_POLICIES: self.list_policies,
        }

    def create_user(self, peer: Peer, request: Command) -> Command:
        name = read_text(request.fields, "username")
        if self._accounts.find(name) is not None:
            raise IllegalField("username", f"there is a user {name[:300]!r} already; update it")
        self._accounts.save_user(decode_user(_body(request), name=name))
        return make_answer(request)

    def update_user(self, peer: Peer, request: Command) -> Command:
        present = self._read_user(request)
        self._accounts.save_user(decode_user(_body(request), name=present.name, present=present))
        return make_answer(request)

    def delete_user(self, peer: Peer, request: Command) -> Command:
        self._accounts.delete_user(self._read_user(request).name)
        return make_answer(request)

    def get_user(self, peer: Peer, request: Command) -> Command:
        return make_answer(request, body=encode_body(self._shown(request, self._read_user(request))))

    def list_users(self, peer: Peer, request: Command) -> Command:
        wanted = request.fields.get("filter", "")
        users = [self._shown(request, user) for user in self._accounts.users() if wanted in user.name]
        return make_answer(request, body=encode_body(users))

    def add_policy(self, peer: Peer, request: Command) -> Command:
        """Add entries to a user's policy; those with the same resource are replaced."""
        name = parse_subject(read_text(request.fields, "subject"))
        self._accounts.add_policy(name, decode_policy(_body(request)))
        return make_answer(request)

    def delete_policy(self, peer: Peer, request: Command) -> Command:
        name = parse_subject(read_text(request.fields, "subject"))
        resource = request.fields.get("resource")
        self._accounts.delete_entries(name, Pattern.parse(resource) if resource else None)
        return make_answer(request)

    def get_policy(self, peer: Peer, request: Command) -> Command:
        name = parse_subject(read_text(request.fields, "subject"))
        if self._accounts.find(name) is None:
            raise IllegalField("subject", f"there is no user {name[:300]!r}")
        return make_answer(request, body=encode_body(policy_members(name, self._accounts.policy(name))))

    def list_policies(self, peer: Peer, request: Command) -> Command:
        subject, resource = request.fields.get("subjectFilter", ""), request.fields.get("resourceFilter", "")
        found: Iterable[tuple[str, Policy]] = self._accounts.policies().items()
        shown = [
            policy_members(name, policy)
            for name, policy in found
            if subject in f"User:{name}" and any(resource in str(entry.pattern) for entry in policy.entries())
        ]
        return make_answer(request, body=encode_body(shown))

    def _for_super_users(self, handler: Callable[[Peer, Command], Command]) -> Handler:
        @wraps(handler)
        def guarded(peer: Peer, request: Command) -> Command:
            user = self._access.user_of(request)
            if not user.is_super:
                raise AccessDenied(f"user {user.name!r} may not change users and policies; a super user may")
            return handler(peer, request)

        return guarded

    def _read_user(self, request: Command) -> User:
        name = read_text(request.fields, "username")
        user = self._accounts.find(name)
        if user is None:
            raise IllegalField("username", f"there is no user {name[:300]!r}")
        return user

    def _shown(self, request: Command, user: User) -> dict[str, object]:
        return user_members(user, with_secret=self._access.user_of(request).is_super)


def _body(request: Command) -> Fields:
    try:
        return parse_fields(request.data, "body")
    except CorruptRecord as error:
        raise IllegalField("body", str(error)) from error
