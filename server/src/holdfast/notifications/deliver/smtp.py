"""Mail as text and HTML, over verified TLS."""

import smtplib
import socket
import ssl
from email.message import EmailMessage
from email.utils import format_datetime
from typing import Any

from holdfast.kit import clock
from holdfast.notifications.deliver import addresses
from holdfast.notifications.deliver.http_request import SECONDS, Deadline, deadline
from holdfast.notifications.deliver.result import Result
from holdfast.notifications.events.text import clean

PERMANENT = 500
"""Codes from here on are final if they concern the message or all its recipients. Others, such as those to a login or
a sender, may be corrected by changing the destination.
"""


def send(options: dict[str, Any], secrets: dict[str, Any], body: dict[str, Any], delivery_uuid: str) -> Result:
    try:
        with deadline(SECONDS) as guard:
            _talk(guard, options, secrets, message_of(options, body, delivery_uuid))
    except addresses.AddressRefused as error:
        return Result(ok=False, message=f"{error}; messages cannot be sent there.")
    except ssl.SSLCertVerificationError as error:
        return Result(ok=False, message=f"The certificate is not trusted: {clean(error.verify_message)}.")
    except TimeoutError:
        return Result(ok=False, message=f"No response within {SECONDS:.0f} seconds.")
    except smtplib.SMTPNotSupportedError as error:
        return Result(ok=False, message=f"The mail server lacks a required feature: {clean(error)}.")
    except smtplib.SMTPResponseException as error:
        is_refused = isinstance(error, smtplib.SMTPDataError) and error.smtp_code >= PERMANENT
        return Result(ok=False, message=_answer(error.smtp_code, error.smtp_error), is_refused=is_refused)
    except smtplib.SMTPRecipientsRefused as error:
        code, words = min(error.recipients.values())
        return Result(ok=False, message=_answer(code, words), is_refused=code >= PERMANENT)
    except (OSError, smtplib.SMTPException, EOFError) as error:
        return Result(ok=False, message=f"Not delivered: {clean(error) or type(error).__name__}.")
    return Result(ok=True, message="The mail server accepted the message.")


def _answer(code: int, words: bytes | str) -> str:
    shown = words.decode("utf-8", "replace") if isinstance(words, bytes) else words
    return f"The mail server answered {code}: {clean(shown)}."


def message_of(options: dict[str, Any], body: dict[str, Any], delivery_uuid: str) -> EmailMessage:
    message = EmailMessage()
    message["Subject"] = clean(body["subject"], 180)
    message["From"] = options["from"]
    message["To"] = ", ".join(options["to"])
    message["Date"] = format_datetime(clock.now())
    message["Message-ID"] = f"<{delivery_uuid}@holdfast>"
    message["Auto-Submitted"] = "auto-generated"
    message.set_content(body["text"])
    message.add_alternative(body["html"], subtype="html")
    return message


def _talk(guard: Deadline, options: dict[str, Any], secrets: dict[str, Any], message: EmailMessage) -> None:
    context = ssl.create_default_context()
    security = options["security"]
    client = _Smtp(guard, context if security == "tls" else None)
    try:
        client.connect(options["host"], options["port"])
        if security == "starttls":
            client.starttls(context=context)
        if options.get("username"):
            client.login(options["username"], secrets.get("password") or "")
        client.send_message(message)
        client.quit()
    finally:
        client.close()


class _Smtp(smtplib.SMTP):
    """Connects to the checked address, in the time that the deadline leaves."""

    def __init__(self, guard: Deadline, tls: ssl.SSLContext | None) -> None:
        self._guard, self._tls = guard, tls
        super().__init__()

    def _get_socket(self, host: str, port: int, timeout: float) -> socket.socket:
        del timeout
        connection = self._guard.connect(host, port)
        self._host = host
        return self._tls.wrap_socket(connection, server_hostname=host) if self._tls else connection
