"""Wake-ups between processes that share a PostgreSQL store. They are only hints: waiting code also polls."""

from typing import TYPE_CHECKING

from sqlalchemy import make_url

from holdfast.errors import Unavailable
from holdfast.kit.supervisor import Supervisor
from holdfast.storage.session import CHANNEL, LANES_CHANNEL, NEWS_CHANNEL, Database

if TYPE_CHECKING:
    import psycopg

LOOP = "listen"


class NotificationListener:
    def __init__(self, database: Database, supervisor: Supervisor) -> None:
        self._database = database
        self._supervisor = supervisor
        self._stopping = supervisor.stopping

    def start(self) -> None:
        if not self._database.is_sqlite:
            self._supervisor.keep_running(LOOP, self._listen)

    def _listen(self) -> None:
        import psycopg  # not needed with SQLite

        url = make_url(self._database.url).set(drivername="postgresql").render_as_string(hide_password=False)
        try:
            with psycopg.connect(url, autocommit=True) as connection:
                connection.execute(f"LISTEN {CHANNEL}")
                connection.execute(f"LISTEN {NEWS_CHANNEL}")
                connection.execute(f"LISTEN {LANES_CHANNEL}")
                self._supervisor.record_working(LOOP)
                self._pass_on(connection)
        except psycopg.Error as error:
            raise Unavailable("store.unavailable", "Not listening for changes, only polling.") from error

    def _pass_on(self, connection: "psycopg.Connection[tuple[object, ...]]") -> None:
        while not self._stopping.is_set():
            for notification in connection.notifies(timeout=1.0, stop_after=1):
                if notification.channel == CHANNEL:
                    self._database.notify()
                elif notification.channel == LANES_CHANNEL:
                    self._database.work.notify()
                else:
                    self._database.wake.notify()
