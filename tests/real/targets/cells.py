"""A cell: one engine on one execution target, with its own service and repository."""

import json
import os
import signal
import subprocess
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from tests.contract.fields import JOB_START
from tests.contract.maintenance.jobs import STATUS
from tests.support.agents import AgentProcess
from tests.support.engines import ENGINE_2, ENGINES
from tests.support.gate import FLAG, Gate
from tests.support.outside import Outside
from tests.support.service import PATIENCE, Client, ServiceProcess, wait_until
from tests.support.sshd import Sshd

PAUSE = 0.2
"""The time between two polls of a job: polling more often costs the service more than the job does."""
PASSPHRASE = "a passphrase of the tests"
NOWHERE = "/nowhere/borg"
SETTINGS = {
    "HOLDFAST_ENGINE_LOCK_WAIT_SECONDS": "1",
    "HOLDFAST_AGENT_HEARTBEAT_SECONDS": "2",
    "HOLDFAST_SSH_PATIENCE_HOURS": "0.05",
}


def program_of(engine: str) -> Path:
    program = ENGINE_2 if engine == "2" else ENGINES.get(engine)
    assert program is not None, f"there is no engine {engine}: `tools/setup.sh test` installs it"
    return program


@dataclass(eq=False)
class Cell:
    """The service of an ssh or agent cell has no engine: every engine run happens on the target."""

    engine: str
    target: str
    folder: Path
    service: ServiceProcess = field(init=False)
    admin: Client = field(init=False)
    machine: Sshd | None = None
    agent: AgentProcess | None = None
    _gates: int = 0

    def open(self) -> "Cell":
        here = str(self.program) if self.target == "local" else NOWHERE
        programs = {"HOLDFAST_BORG1": NOWHERE, "HOLDFAST_BORG2": NOWHERE, self._variable("HOLDFAST"): here}
        self.service = ServiceProcess(self.folder / "data", {**SETTINGS, **programs})
        try:
            self.service.start()
            self.admin = self.service.client().login()
        except BaseException:
            self.close()
            raise
        return self

    def close(self) -> None:
        if self.agent is not None:
            self.agent.end_everything()
        if self.service.process is not None:
            self.service.stop()
        if self.machine is not None and self.machine.process is not None:
            self.machine.cut_links()
            self.machine.stop()

    @cached_property
    def program(self) -> Path:
        """The real engine, with a weakened KDF so that it creates and opens keys quickly: each run opens one."""
        script = self.folder / "borg"
        script.write_text(f'#!/bin/sh\nBORG_TESTONLY_WEAKEN_KDF=1 exec "{program_of(self.engine)}" "$@"\n')
        script.chmod(0o755)
        return script

    # --- the machine of the target -----------------------------------------------------------------------------------

    @cached_property
    def place(self) -> dict[str, Any]:
        """The settings of a repository of this cell that determine where it is opened."""
        if self.target == "local":
            return {"execution_target": "local"}
        there = self.folder / "machine"
        there.mkdir()
        if self.target == "ssh":
            self.machine = Sshd(there).start()
            number = self.machine.connection(self.admin, "machine", engine_path=str(self.program))
            return {"execution_target": "ssh", "ssh_connection_id": number}
        variables = {"BACKUP_AGENT_BORG1": NOWHERE, self._variable("BACKUP_AGENT"): str(self.program)}
        self.agent = AgentProcess(there, self.program, self.service.url, variables)
        self.agent.register(self.admin).start()
        return {"execution_target": "agent", "agent_machine_id": self.agent.agent_id}

    def _variable(self, prefix: str) -> str:
        return f"{prefix}_BORG{self.engine[0]}"

    # --- its repository ----------------------------------------------------------------------------------------------

    @cached_property
    def source(self) -> Path:
        """A small tree with everything that a restore must bring back."""
        folder = self.folder / "source"
        (folder / "letters").mkdir(parents=True)
        (folder / "letters" / "may.txt").write_text("may\n")
        (folder / "notes.txt").write_text("one\n")
        (folder / "run.sh").write_text("#!/bin/sh\n")
        (folder / "run.sh").chmod(0o750)
        (folder / "link").symlink_to("notes.txt")
        os.utime(folder / "letters" / "may.txt", ns=(10**18, 10**18 + 123456789))
        return folder

    @property
    def path(self) -> Path:
        return self.folder / "repository"

    @property
    def encryption(self) -> str:
        return "aes256-ocb" if self.engine == "2" else "repokey"

    def wanted(self, **more: Any) -> dict[str, Any]:
        return {
            "name": "papers",
            "path": str(self.path),
            "engine_version": int(self.engine[0]),
            "encryption": self.encryption,
            "passphrase": PASSPHRASE,
            "source_paths": [str(self.source)],
            "custom_flags": [FLAG],
            "index_mode": "off",
            **self.place,
            **more,
        }

    @cached_property
    def repository(self) -> dict[str, Any]:
        answer = self.admin.post("/api/repositories/", json=self.wanted())
        assert answer.status_code == 201, answer.text
        created: dict[str, Any] = answer.json()
        if self.target == "agent":
            ended = self.end_of(created["setup_operation_id"])
            assert ended["status"] == "completed", (ended, self.agent and self.agent.own_log()[-3000:])
        return created

    @property
    def url(self) -> str:
        return f"/api/repositories/{self.repository['id']}"

    def get(self, place: str = "", **params: Any) -> Any:
        answer = self.admin.get(f"{self.url}{place}", params=params)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def archived(self, path: str) -> str:
        """A path below the source, as stored in archives."""
        return f"{self.source}/{path}".strip("/")

    def traces(self) -> tuple[Any, ...]:
        """Everything in the store that a refused request must leave unchanged."""
        listed = self.admin.get("/api/operations/", params={"repository_id": self.repository["id"]}).json()["items"]
        return [item["id"] for item in listed], self.get(), self.archives()

    # --- jobs --------------------------------------------------------------------------------------------------------

    def end_of(self, job: int) -> dict[str, Any]:
        def ended() -> dict[str, Any] | None:
            found = self.admin.operation(job)
            return found if found["status"] not in ("pending", "running") else None

        try:
            return wait_until(ended, pause=PAUSE, what=f"operation {job} ends")
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.agent.own_log()[-3000:] if self.agent else ''}") from error

    def ended(self, answer: Any, kind: str, status: str = "completed") -> dict[str, Any]:
        """The operation that a request started, after checking that it ended with this status on the right machine."""
        assert answer.status_code == 200, answer.text
        assert set(answer.json()) == JOB_START
        assert answer.json()["status"] == "pending"
        operation = self.end_of(answer.json()["job_id"])
        lines = self.admin.log_lines(operation["id"])
        assert (operation["kind"], operation["status"]) == (kind, status), (operation, lines)
        assert operation["repository_id"] == self.repository["id"]
        assert operation["machine_id"] == self.place.get("agent_machine_id")
        return operation

    def back_up(self, status: str = "completed", **more: Any) -> dict[str, Any]:
        body = {"repository": self.repository["path"], **more}
        return self.ended(self.admin.post("/api/backup/start", json=body), "backup", status)

    def shown(self, word: str, job: int) -> dict[str, Any]:
        """A maintenance job as returned by the route of its kind, after checking that its repository lists it."""
        answer = self.admin.get(f"/api/repositories/{word}-jobs/{job}")
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        assert set(found) >= STATUS
        assert (found["id"], found["repository"], found["status"]) == (job, str(self.path), "completed")
        assert job in [one["id"] for one in self.get(f"/{word}-jobs")["jobs"]]
        return found

    def first_words_of_a_log(self) -> str:
        """The engine's command line, preceded by the machine if it runs on another one."""
        where = f"[{self.machine.username}@127.0.0.1] " if self.machine else ""
        return f"$ {where}{self.program} --log-json"

    def wait_until_idle(self) -> None:
        def idle() -> bool:
            return not self.admin.get("/api/operations/queue").json()["repositories"]

        wait_until(idle, pause=PAUSE, what="nothing runs")

    @cached_property
    def two_backups(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Create two archives of the source, with one file changed and one added in between; return their operations.

        The index is updated only once, for both: an update after each backup would be the slowest part of these tests.
        """
        (self.source / "notes.txt").write_text("one\n")
        (self.source / "letters" / "june.txt").unlink(missing_ok=True)
        first = self.back_up()
        (self.source / "notes.txt").write_text("one\ntwo\n")
        (self.source / "letters" / "june.txt").write_text("june\n")
        second = self.back_up()
        for mode in ("full", "off"):
            answer = self.admin.put(self.url, json={"index_mode": mode})
            assert (answer.status_code, answer.json()["index_mode"]) == (200, mode), answer.text
            self.wait_until_idle()
        return first, second

    def archives(self) -> list[dict[str, Any]]:
        """The archives in the index, oldest first."""
        found: list[dict[str, Any]] = self.get("/archives")["archives"]
        return found[::-1]

    def two_archives(self) -> tuple[dict[str, Any], dict[str, Any]]:
        ids = [backup["id"] for backup in self.two_backups]
        first, second = (one for one in self.archives() if one["backup_operation_id"] in ids)
        return first, second

    def at_least(self, count: int) -> list[dict[str, Any]]:
        """At least this many archives, for tests that remove some."""
        while len(found := self.archives()) < count:
            self.back_up()
            self.wait_until_idle()
        return found

    def forget_backups(self) -> None:
        """Drop the two backups: the next test that needs two archives creates them again."""
        self.__dict__.pop("two_backups", None)

    def a_deleted_archive(self) -> str:
        """The engine's id of an archive that can be undeleted."""
        if not self.get("/deleted-archives")["archives"]:
            self.forget_backups()
            self.ended(self.admin.delete(f"/api/archives/{self.at_least(1)[-1]['id']}"), "delete_archive")
        found: str = self.get("/deleted-archives")["archives"][0]["engine_id"]
        return found

    def gate(self) -> Gate:
        self._gates += 1
        return Gate(self.folder / f"gate-{self._gates}")

    # --- the truth ---------------------------------------------------------------------------------------------------

    @cached_property
    def outside(self) -> Outside:
        """The engine itself, with its own name and records."""
        return Outside(self.program, self.folder / "outside")

    def ask(self, verb: str, *options: str) -> str:
        """Run a command of the real engine on the repository."""
        if self.engine == "2":
            return self.outside.run("-r", str(self.path), "--lock-wait", "20", verb, *options, passphrase=PASSPHRASE)
        return self.outside.run("--lock-wait", "20", verb, *options, str(self.path), passphrase=PASSPHRASE)

    def true_archives(self) -> dict[str, str]:
        """The archives that the engine itself lists: names by ids."""
        listed = json.loads(self.ask("repo-list" if self.engine == "2" else "list", "--json"))["archives"]
        return {archive["id"]: archive["name"] for archive in listed}

    def true_encryption(self) -> str:
        verb, word = ("repo-info", "encryption") if self.engine == "2" else ("info", "mode")
        return str(json.loads(self.ask(verb, "--json"))["encryption"][word])

    def leave_lock(self) -> None:
        """Simulate another machine that died while it held the repository's lock."""
        where = ("-r", str(self.path), "with-lock") if self.engine == "2" else ("with-lock", str(self.path))
        holder = subprocess.Popen(
            [self.outside.program, *where, "sh", "-c", "echo held; cat"],
            env=self.outside._environment(PASSPHRASE),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        os.killpg(holder.pid, signal.SIGKILL)
        holder.communicate(timeout=PATIENCE)

    def locks(self) -> list[str]:
        """The engine's lock files in the repository."""
        folder = self.path / ("locks" if self.engine == "2" else "lock.exclusive")
        return sorted(entry.name for entry in folder.iterdir()) if folder.is_dir() else []
