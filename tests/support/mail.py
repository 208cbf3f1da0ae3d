"""A mail server for tests, with and without TLS."""

import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email import message_from_bytes, policy
from email.message import EmailMessage
from typing import Any

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import AuthResult, LoginPassword

from tests.support.service import free_port


@dataclass
class MailServer:
    port: int = 0
    messages: list[EmailMessage] = field(default_factory=list)
    envelopes: list[Any] = field(default_factory=list)
    logins: list[tuple[str, str]] = field(default_factory=list)
    refuse: str | None = None

    async def handle_DATA(self, _server: Any, _session: Any, envelope: Any) -> str:  # noqa: N802
        if self.refuse is not None:
            return self.refuse
        self.envelopes.append(envelope)
        self.messages.append(message_from_bytes(envelope.content, policy=policy.default))
        return "250 accepted"


@contextmanager
def mail_server(
    context: ssl.SSLContext | None = None, *, implicit: bool = False, password: str | None = None
) -> Iterator[MailServer]:
    """Start a mail server. With a TLS context it offers STARTTLS, or with `implicit` uses TLS from the first byte."""
    server = MailServer()

    def authenticate(_server: Any, _session: Any, _envelope: Any, _mechanism: str, data: Any) -> AuthResult:
        assert isinstance(data, LoginPassword)
        server.logins.append((data.login.decode(), data.password.decode()))
        return AuthResult(success=data.password.decode() == password, handled=False)

    more: dict[str, Any] = {"ssl_context": context} if implicit else {"tls_context": context}
    if password is not None:
        more |= {"authenticator": authenticate, "auth_required": True, "auth_require_tls": not implicit}
    server.port = free_port()
    controller = Controller(server, hostname="127.0.0.1", port=server.port, ready_timeout=60, **more)
    controller.start()
    try:
        yield server
    finally:
        controller.stop()
