"""The helper with real engines: locks, passphrases, remote repositories, the self-test."""

import os
import random
import resource
import time
from pathlib import Path

import pytest

from holdfast.history.chunks.metadata_chunks import EngineChunks
from holdfast.history.chunks.route import Route, RouteChooser
from holdfast.history.chunks.selftest import self_test
from holdfast.history.errors import ArchiveGone, ChunkRouteFailed, SelfTestFailed
from tests.real.history.engine import PASSPHRASE, RealRepository, plant
from tests.support.engines import ENGINES

DEADLINE_SECONDS = 30.0
SELECTABLE = 1024
"""The number of descriptors that `select` accepts."""


@pytest.fixture(scope="module", params=sorted(ENGINES))
def repository(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> RealRepository:
    made = RealRepository(ENGINES[request.param], tmp_path_factory.mktemp("engine")).init()
    plant(made.tree, random.Random(1), files=16)
    made.create("one")
    return made


def locks(repository: RealRepository) -> list[str]:
    return [name for name in os.listdir(repository.folder / "repository") if name.startswith("lock")]


def test_an_unknown_archive_is_reported_as_gone_and_the_lock_is_released(repository: RealRepository) -> None:
    with repository.chunks() as chunks:
        assert chunks.version.startswith("1.")
        assert locks(repository)
        assert chunks.chunk_ids(repository.ids["one"])
        with pytest.raises(ArchiveGone):
            chunks.chunk_ids("00" * 32)
    assert locks(repository) == []


def test_the_passphrase_can_be_passed_through_a_descriptor(repository: RealRepository) -> None:
    reading, writing = os.pipe()
    os.write(writing, PASSPHRASE.encode())
    os.close(writing)
    environment = {**repository.environment, "BORG_PASSPHRASE_FD": str(reading)}
    del environment["BORG_PASSPHRASE"]
    try:
        with EngineChunks(
            repository.program, repository.location, environment=environment, pass_fds=[reading]
        ) as chunks:
            ids = chunks.chunk_ids(repository.ids["one"])
            assert sum(len(data) for data in chunks.chunks(ids)) > 0
    finally:
        os.close(reading)


def test_a_wrong_passphrase_is_reported(repository: RealRepository) -> None:
    environment = {**repository.environment, "BORG_PASSPHRASE": "wrong"}
    with (
        pytest.raises(ChunkRouteFailed, match="PassphraseWrong"),
        EngineChunks(repository.program, repository.location, environment=environment),
    ):
        pytest.fail("opened with a wrong passphrase")
    assert locks(repository) == []


def test_a_missing_repository_is_reported(repository: RealRepository) -> None:
    nowhere = EngineChunks(repository.program, f"{repository.location}-none", environment=repository.environment)
    with pytest.raises(ChunkRouteFailed, match="DoesNotExist"), nowhere:
        pytest.fail("opened nothing")


def test_a_process_with_more_than_a_thousand_descriptors_reads_chunks(repository: RealRepository) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < SELECTABLE * 2:
        pytest.skip(f"this user may open only {hard} files")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, SELECTABLE * 2), hard))
    many = [os.dup(0)]
    try:
        while many[-1] < SELECTABLE:
            many.append(os.dup(0))
        with repository.chunks() as chunks:
            assert chunks.chunk_ids(repository.ids["one"])
    finally:
        for descriptor in many:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_helper_whose_reader_is_gone_releases_the_lock(repository: RealRepository) -> None:
    chunks = repository.chunks()
    chunks.__enter__()
    assert chunks._process is not None
    assert chunks._process.stdin is not None
    chunks._process.stdin.close()
    deadline = time.monotonic() + DEADLINE_SECONDS
    while chunks._process.poll() is None:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert locks(repository) == []
    chunks.__exit__(None, None, None)


def test_a_remote_repository_is_read_through_borg_serve(repository: RealRepository) -> None:
    shell = repository.folder / "shell"
    shell.write_text('#!/bin/sh\nshift\nexec "$@"\n')  # stands for ssh: drops the host and runs the rest here
    shell.chmod(0o755)
    environment = {
        **repository.environment,
        "BORG_RSH": str(shell),
        "BORG_REMOTE_PATH": str(repository.program),
    }
    location = f"ssh://somewhere{repository.location}"
    with EngineChunks(repository.program, location, environment=environment) as far, repository.chunks() as near:
        ids = far.chunk_ids(repository.ids["one"])
        assert ids == near.chunk_ids(repository.ids["one"])
        assert list(far.chunks(ids)) == list(near.chunks(ids))
    assert locks(repository) == []


@pytest.mark.slow
@pytest.mark.parametrize("series", sorted(ENGINES))
def test_the_self_test_passes_with_the_supported_engines(series: str, tmp_path: Path) -> None:
    version = {"1.2": "1.2.4", "1.4": "1.4.5"}[series]
    decision = RouteChooser(tmp_path / "verdicts.json").choose(ENGINES[series], version)
    assert decision.route is Route.CHUNKS, decision.reason


def test_the_self_test_fails_with_a_program_that_only_looks_like_an_engine(tmp_path: Path) -> None:
    fake = tmp_path / "borg"
    fake.write_text("#!/usr/bin/python3\nraise SystemExit(0)\n")
    fake.chmod(0o755)
    with pytest.raises(SelfTestFailed):
        self_test(fake)
