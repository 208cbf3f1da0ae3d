"""All settings of the service, read from the environment (``HOLDFAST_…``) or ``holdfast.toml``."""

from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pydantic import Field, SecretStr, ValidationError
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict, TomlConfigSettingsSource

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails


class Settings(BaseSettings):
    """The environment overrides ``holdfast.toml`` in the current folder; command line options override both."""

    model_config = SettingsConfigDict(env_prefix="HOLDFAST_", toml_file="holdfast.toml", extra="ignore")

    data_dir: Path = Field(
        Path(".data"), description="Folder for the store, logs, spools and keys; created with mode 0700."
    )
    database_url: str | None = Field(None, description="SQLAlchemy URL (default: SQLite in the data folder).")
    host: str = Field("127.0.0.1", description="Address to listen on.")
    trusted_proxies: str | None = Field(
        None, description="Comma-separated addresses of reverse proxies whose X-Forwarded-For is trusted."
    )
    port: int = Field(8080, ge=0, le=65535, description="Port to listen on; 0 picks a free one.")
    role: Literal["all", "api", "runner"] = Field("all", description="Parts of the service that this process runs.")
    admin_password: SecretStr | None = Field(None, description="Password of the first admin when the store is empty.")
    plan: Literal["community", "pro"] = Field("pro", description="Enabled features.")
    secret_key: SecretStr | None = Field(
        None, description="Key for encrypting stored secrets, instead of the key file (32 bytes, base64)."
    )
    secret_key_file: Path | None = Field(None, description="Key file (default: secret.key in the data folder).")
    borg1: str = Field("borg", description="Path of the engine 1 program.")
    borg2: str = Field("borg2", description="Path of the engine 2 program.")
    database_programs: str | None = Field(
        None,
        description="Colon-separated folders with database dump programs; searched before the system's.",
    )
    rclone: str = Field("rclone", description="Path of the rclone program, used for mirrors.")
    engine_lock_wait_seconds: int = Field(
        5, ge=0, le=3600, description="How long an engine waits for another program's lock."
    )
    inline_wait_seconds: float = Field(
        30, gt=0, le=300, description="How long a request waits for a busy repository before 423."
    )
    engine_requests: int = Field(
        16, ge=1, le=1000, description="Maximum number of concurrent requests that run an engine."
    )
    engine_requests_per_user: int = Field(
        4, ge=1, le=1000, description="The same limit per user; further requests wait for a while, then get 503."
    )
    downloads: int = Field(
        12, ge=1, le=1000, description="Maximum number of concurrent downloads; each runs an engine."
    )
    downloads_per_user: int = Field(4, ge=1, le=1000, description="The same limit per user.")
    download_least_bytes_per_second: int = Field(
        8192, ge=1, description="Minimum speed of a download; slower ones are ended after a minute."
    )
    download_slow_bytes_per_second: int = Field(
        1048576, ge=1, description="Downloads slower than this give way to waiting work."
    )
    download_gives_way_seconds: float = Field(
        300, gt=0, description="How long exclusive work waits before ending a slow download."
    )
    event_streams: int = Field(1000, ge=1, description="Maximum number of open event streams.")
    event_streams_per_user: int = Field(20, ge=1, description="The same limit per user.")
    connections: int = Field(
        40_000, ge=10, description="Maximum number of open connections; fewer if the descriptor limit is low."
    )
    connections_per_address: int = Field(
        25_000, ge=1, description="The same limit per client address; trusted proxies are exempt."
    )
    unknown_connections_per_address: int = Field(
        2_000,
        ge=1,
        description="Maximum per client address without a valid credential; beyond it, the oldest are closed.",
    )
    request_head_seconds: float = Field(
        20, gt=0, description="Time limit for receiving a request's headers, before 408."
    )
    request_body_seconds: float = Field(60, gt=0, description="Time limit for receiving a request's body, before 408.")
    answer_stall_seconds: float = Field(
        300, gt=0, description="Connections that do not read their response for this long are closed."
    )
    access_token_minutes: int = Field(30, ge=1, le=1440, description="Lifetime of an access token.")
    session_idle_days: int = Field(7, ge=1, le=365, description="Sessions unused for this long end.")
    reconcile_minutes: int = Field(60, ge=1, le=10080, description="Interval between reconcile ticks.")
    log_retention_days: int = Field(365, ge=1, description="Logs of finished operations older than this are removed.")
    log_retention_mib: int = Field(
        10240, ge=1, description="Maximum total size of operation logs; the oldest are removed first."
    )
    operation_log_mib: int = Field(
        64, ge=1, description="Maximum log size per operation; beyond it, the beginning and the end are kept."
    )
    agent_job_parts: int = Field(
        2000, ge=1, description="Maximum number of result parts an agent may send per job; further ones are refused."
    )
    agent_job_parts_mib: int = Field(
        64, ge=1, description="Maximum memory for the parts of one result; further ones are refused."
    )
    cancel_grace_seconds: float = Field(
        30, gt=0, description="Time between SIGTERM and SIGKILL when an operation is cancelled."
    )
    agent_heartbeat_seconds: int = Field(30, ge=1, le=3600, description="Agent heartbeat interval.")
    agent_poll_seconds: int = Field(15, ge=1, le=3600, description="Agent poll interval.")
    agent_offline_seconds: float = Field(
        120, gt=0, le=86400, description="Agents silent for this long count as offline; their jobs stay unchanged."
    )
    agent_job_expiry_hours: float | None = Field(
        None, gt=0, description="Jobs fail if no agent takes them for this long (default: never)."
    )
    ssh_patience_hours: float = Field(
        24, gt=0, description="How long to keep checking for an engine on an ssh machine that has become unreachable."
    )
    schedule_history_days: int = Field(
        730, ge=1, le=36500, description="Schedule runs that ended longer ago than this are removed."
    )
    metrics: Literal["token", "open", "off"] = Field(
        "token", description="Access to /metrics: an admin's token, everyone, or off."
    )
    metrics_most_series: int = Field(
        2000, ge=0, description="With more repositories, agents or schedules than this, /metrics reports only totals."
    )
    ping_url: SecretStr | None = Field(
        None, description="URL called every minute while the store, the runner and the schedules are healthy."
    )
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = Field(
        "INFO", description="Level of the service's own log."
    )
    log_format: Literal["auto", "console", "json"] = Field(
        "auto", description="auto: console on a terminal, otherwise JSON lines."
    )

    @property
    def store_url(self) -> str:
        return self.database_url or f"sqlite:///{self.data_dir.absolute() / 'holdfast.db'}"

    @property
    def logs_dir(self) -> Path:
        return self.data_dir / "logs"

    @property
    def spool_dir(self) -> Path:
        return self.data_dir / "spool"

    @property
    def engine_dir(self) -> Path:
        return self.data_dir / "engine"

    @property
    def calls_dir(self) -> Path:
        """Folder for calls that agents have yet to pick up."""
        return self.data_dir / "calls"

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        del dotenv_settings, file_secret_settings
        return init_settings, env_settings, TomlConfigSettingsSource(settings_cls)


def sentences_about(error: ValidationError) -> list[str]:
    """One sentence for each invalid setting: its name, the given value, and the allowed ones."""
    return [_sentence(problem) for problem in error.errors(include_url=False)]


def _sentence(problem: "ErrorDetails") -> str:
    name = str(problem["loc"][0]) if problem["loc"] else "settings"
    wanted = problem["msg"].removeprefix("Input should be ").removeprefix("Value error, ")
    given = "" if name in ("admin_password", "secret_key", "ping_url") else f" ({problem['input']!r} was given)"
    return f"The setting {name} (HOLDFAST_{name.upper()}) must be {wanted}{given}."
