"""Wake-ups between processes that share a PostgreSQL store. Hints only: whoever waits also polls."""

import threading
from typing import TYPE_CHECKING

import structlog
from sqlalchemy import make_url

from holdfast.storage.session import CHANNEL, NEWS_CHANNEL, Database

if TYPE_CHECKING:
    import psycopg

log = structlog.get_logger("holdfast.listen")


class Listener:
    def __init__(self, database: Database) -> None:
        self._database = database
        self._stopping = threading.Event()

    def start(self) -> None:
        if not self._database.is_sqlite:
            threading.Thread(target=self._listen_forever, name="listen", daemon=True).start()

    def stop(self) -> None:
        self._stopping.set()

    def _listen_forever(self) -> None:
        import psycopg  # a service on SQLite does without it

        url = make_url(self._database.url).set(drivername="postgresql").render_as_string(hide_password=False)
        while not self._stopping.is_set():
            try:
                with psycopg.connect(url, autocommit=True) as connection:
                    connection.execute(f"LISTEN {CHANNEL}")
                    connection.execute(f"LISTEN {NEWS_CHANNEL}")
                    self._pass_on(connection)
            except psycopg.Error as error:
                log.warning("not listening, polling only", reason=str(error).strip())
                self._stopping.wait(2.0)

    def _pass_on(self, connection: "psycopg.Connection[tuple[object, ...]]") -> None:
        while not self._stopping.is_set():
            for heard in connection.notifies(timeout=1.0, stop_after=1):
                if heard.channel == CHANNEL:
                    self._database.notify()
                else:
                    self._database.wake.notify()
