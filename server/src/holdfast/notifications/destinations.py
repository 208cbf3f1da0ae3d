"""Checks, changes and opens destinations. Secret options are encrypted and never shown."""

import json
import uuid
from typing import Any
from urllib.parse import urlsplit

from pydantic import SecretStr

from holdfast.access.vault import SecretUnreadable, Vault
from holdfast.kit import clock
from holdfast.notifications import errors
from holdfast.notifications.deliver import addresses, apprise_child, ping, smtp, webhook
from holdfast.notifications.deliver.result import Result
from holdfast.notifications.models import Destination, DestinationKind
from holdfast.notifications.schemas import DestinationOptions, NewDestination
from holdfast.storage.session import Database

SENDERS = {
    DestinationKind.WEBHOOK: webhook.send,
    DestinationKind.SMTP: smtp.send,
    DestinationKind.APPRISE: apprise_child.send,
    DestinationKind.PING: ping.send,
}
TAKES = {
    DestinationKind.WEBHOOK: {"url", "secret", "rotate_secret", "retire_secret"},
    DestinationKind.SMTP: {"host", "port", "security", "username", "password", "sender", "to"},
    DestinationKind.APPRISE: {"url"},
    DestinationKind.PING: {"url", "schedule_id"},
}
NEEDS = {
    DestinationKind.WEBHOOK: ("url",),
    DestinationKind.SMTP: ("host", "from", "to"),
    DestinationKind.APPRISE: ("url",),
    DestinationKind.PING: ("url", "schedule_id"),
}
SECRET = {
    DestinationKind.WEBHOOK: ("secret", "previous_secret"),
    DestinationKind.SMTP: ("password",),
    DestinationKind.APPRISE: ("url",),
    DestinationKind.PING: ("url",),
}


def secret_context(destination_uuid: str) -> str:
    return f"notification_destination:{destination_uuid}:secrets"


class Destinations:
    def __init__(self, database: Database, vault: Vault) -> None:
        self._database, self._vault = database, vault

    def new(self, wanted: NewDestination) -> tuple[Destination, str | None]:
        """Create a destination. Return it with the generated webhook secret, if there is one."""
        now = clock.now()
        destination = Destination(
            uuid=uuid.uuid4().hex,
            name=wanted.name,
            kind=wanted.kind,
            enabled=wanted.enabled,
            options={},
            created_at=now,
            updated_at=now,
        )
        return destination, self.change(destination, wanted.options)

    def change(self, destination: Destination, given: DestinationOptions) -> str | None:
        """Set the given options. Return a webhook secret if one was generated. Raise Unprocessable."""
        kind = DestinationKind(destination.kind)
        values = _given(kind, given)
        secrets = self.secrets(destination)
        created = _change_webhook_secret(secrets, values) if kind is DestinationKind.WEBHOOK else None
        options = dict(destination.options)
        for name, value in values.items():
            (secrets if name in SECRET[kind] else options)[name] = value
        if kind is DestinationKind.SMTP:
            options.setdefault("security", "starttls")
            options.setdefault("port", 465 if options["security"] == "tls" else 587)
        _check(kind, {**options, **secrets})
        destination.options = options
        destination.secrets = self._vault.encrypt(json.dumps(secrets), secret_context(destination.uuid))
        destination.updated_at = clock.now()
        return created

    def secrets(self, destination: Destination) -> dict[str, Any]:
        """Return the secret options. Raise SecretUnreadable if no known key decrypts them."""
        if destination.secrets is None:
            return {}
        opened: dict[str, Any] = json.loads(self._vault.decrypt(destination.secrets, secret_context(destination.uuid)))
        return opened

    def shown(self, destination: Destination) -> dict[str, Any]:
        """Return the options as responses show them, with addresses masked if they contain secrets."""
        kind = DestinationKind(destination.kind)
        if "url" not in SECRET[kind]:
            return dict(destination.options)
        try:
            url = str(self.secrets(destination).get("url", ""))
        except SecretUnreadable:
            return dict(destination.options)
        masked = apprise_child.masked(url) if kind is DestinationKind.APPRISE else _host_only(url)
        return {**destination.options, "url": masked}

    def secret_names(self, destination: Destination) -> list[str]:
        try:
            return sorted(self.secrets(destination))
        except SecretUnreadable:
            return []

    def send(self, destination_id: int, body: dict[str, Any], delivery_uuid: str) -> Result:
        """Send a body to a destination. Never raises: errors are part of the result."""
        with self._database.reading() as session:
            destination = session.get(Destination, destination_id)
        if destination is None:
            return Result(ok=False, message="The destination was deleted.", is_gone=True)
        try:
            secrets = self.secrets(destination)
            sender = SENDERS[DestinationKind(destination.kind)]
            return sender(destination.options, secrets, body, delivery_uuid)
        except SecretUnreadable as error:
            return Result(ok=False, message=error.message)
        except Exception as error:  # noqa: BLE001 - any error of a receiver ends only this attempt
            return Result(ok=False, message=f"Not delivered: {type(error).__name__}.")


def _given(kind: DestinationKind, given: DestinationOptions) -> dict[str, Any]:
    """Return the client's fields under their stored names. Raise Unprocessable for an option of another kind."""
    values: dict[str, Any] = {}
    for name in given.model_fields_set:
        value = getattr(given, name)
        if name not in TAKES[kind]:
            raise errors.bad_option(name, f"Destinations of kind {kind} have no option {name}.")
        values["from" if name == "sender" else name] = (
            value.get_secret_value() if isinstance(value, SecretStr) else value
        )
    return {name: value for name, value in values.items() if value is not None}


def _change_webhook_secret(secrets: dict[str, Any], values: dict[str, Any]) -> str | None:
    """Keep the previous secret beside a new one until it is retired. Return the new one if it was generated here."""
    rotate, retire = values.pop("rotate_secret", False), values.pop("retire_secret", False)
    if retire:
        secrets.pop("previous_secret", None)
    chosen = values.pop("secret", None)
    if chosen is not None and not webhook.is_secret(chosen):
        raise errors.bad_option("secret", "A webhook secret must be whsec_ followed by 24 to 64 bytes in base64.")
    if chosen is None and "secret" in secrets and not rotate:
        return None
    created = None if chosen is not None else webhook.new_secret()
    if "secret" in secrets and secrets["secret"] != (chosen or created):
        secrets["previous_secret"] = secrets["secret"]
    secrets["secret"] = chosen or created
    return created


def _check(kind: DestinationKind, options: dict[str, Any]) -> None:
    for name in NEEDS[kind]:
        if not options.get(name):
            raise errors.bad_option(name, f"Destinations of kind {kind} need the option {name}.")
    if kind in (DestinationKind.WEBHOOK, DestinationKind.PING):
        _check_url(options["url"])
    if kind is DestinationKind.APPRISE:
        if (scheme := apprise_child.refused_scheme(options["url"])) is not None:
            raise errors.bad_option("url", f"Apprise addresses with the scheme {scheme} are refused.")
        if not apprise_child.is_installed():
            raise errors.bad_option("kind", "Apprise is not installed. Run: pip install 'holdfast[apprise]'.")
    if kind is DestinationKind.SMTP and options.get("username") and options["security"] == "none":
        raise errors.bad_option("security", "Passwords are never sent without TLS. Use starttls or tls.")


def _check_url(url: str) -> None:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise errors.bad_option("url", "This is not a valid URL.") from error
    del port
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise errors.bad_option("url", "The address must begin with http:// or https:// and name a host.")
    if parts.username is not None or parts.fragment:
        raise errors.bad_option("url", "The address must not contain a login or fragment.")
    if any(ord(letter) <= 32 or ord(letter) == 127 for letter in url):
        raise errors.bad_option("url", "The address must not contain spaces or control characters.")
    try:
        is_refused = addresses.is_refused(parts.hostname)
    except ValueError:
        return  # a name, whose addresses are checked at each attempt
    if is_refused:
        raise errors.bad_option("url", "Link-local and metadata addresses are refused.")


def _host_only(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}/****"
