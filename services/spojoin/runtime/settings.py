"""Settings of a service: one frozen object, read once at start from the environment and a file.

Every variable whose name begins with SPOJOIN_ must be known, since a misspelt one would otherwise go unnoticed.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self, cast

from pydantic import AfterValidator, Field, SecretStr, ValidationError, WithJsonSchema, model_validator
from pydantic_core import PydanticCustomError
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    SettingsError,
    TomlConfigSettingsSource,
    YamlConfigSettingsSource,
)

from spojoin.errors import ConfigurationError
from spojoin.ports.credentials import Properties, check_credentials, secret, with_login, with_user
from spojoin.protocol.backfill import Backfill
from spojoin.protocol.packing import APART, parse_packing
from spojoin.protocol.services import FIRST_INSTANCE, instance_name
from spojoin.protocol.topic_config import TopicConfigs, topic_configs
from spojoin.protocol.topology import Role
from spojoin.suggest import listed
from spojoin.wire.invariants import SINKS_MAX
from spojoin.wire.result_forms import RESULT_FORMS

#: The prefix of the settings' variables.
ENV_PREFIX = "SPOJOIN_"

#: how a settings file is read, by its extension
_FILE_KINDS = {".yaml": "yaml_file", ".yml": "yaml_file", ".toml": "toml_file", ".env": "env_file"}

#: The owner of queries that no release runs, but `spojoin up`, Compose, or services started by hand.
NO_RELEASE = "spojoin-up"

#: Settings whose values may contain passwords, and are never printed.
_SECRET = ("kafka", "kafka_password", "redis_url", "redis_password", "registry_url", "registry_password")


def _known_form(name: str) -> str:
    if name not in RESULT_FORMS:
        expected = listed(f"'{each}'" for each in RESULT_FORMS)
        raise PydanticCustomError("literal_error", "Input should be {expected}", {"expected": expected})
    return name


#: How results are written: see `wire/README.md`.
ResultsFormat = Annotated[str, AfterValidator(_known_form), WithJsonSchema({"type": "string", "enum": [*RESULT_FORMS]})]


class Settings(BaseSettings):
    """All settings of a service; each is an environment variable of the same name with the prefix SPOJOIN_.

    query_file: the query, a YAML file
    intake: which intake this is, from 0
    intakes: how many read the inputs for the router, each some of their partitions; 0: the router reads them itself
    joiner: which mutable joiner this is, from 0
    joiners: how many there are: up to the number of predicates they divide these, with more in rows the frames as well;
        default: as many as predicates
    logical_and: which logical AND this is, from 0, if there are several
    logical_ands: how many there are; they divide the frames
    worker: which PO-Join worker this is, from 0
    workers: the worker count of new frames, until the controller requests another
    workers_max: the largest worker count; default: workers
    sink: which sink this is, from 0, if there are several
    sinks: how many there are, and partitions of the results; a changed number takes effect with the next generation
    columns: of the workers' grid: the window is divided by them, and frames by the rows that workers then fill
    columns_by: how columns share the window: `batch`, whole batches in turn, or `key`, tuples by the key of an equality
    packing: which roles share a process: apart, together, or groups such as `router+sink` or `answerer`, which is
        mutable, pojoin and logical-and in the process of each worker; the same for all services
    standbys: whether each service has a second instance, which takes its place if it is silent
    instance: which of a service's instances this is: a name such as a or b
    patience_ms: how long the speaker may be silent before another instance takes its place
    workers_inside: how many of the first workers run in the process that PO-Join shares with other roles, if it does
    threads: how many threads share the work of frames in a process of several roles; default: one for each core, and
        one in an answerer
    bootstrap_servers: Kafka
    kafka: further client properties by librdkafka's names (mostly for security)
    kafka_username: this service's user in Kafka; with OAUTHBEARER the id of its client
    kafka_password, kafka_password_file: its password (its client's secret), or a file with only the password
    redis_url: the store; without it services read the result position only from the results topic
    redis_username, redis_password, redis_password_file: this service's user in the store, if the URL names none
    registry_url: the schema registry, for inputs and results with registered schemas; several with commas between them
    registry_username, registry_password, registry_password_file: this service's user in the registry
    registry_ca: a file of certificates by which the registry's own is checked; default: the usual authorities
    secrets_folders: folders of mounted secrets; a service ends when one changes, and restarts with the new ones
    input_topics: the topic of a stream, if it isn't `in.<stream>`
    owner: the release that runs the services and owns the query's name; if a service's query is refused, a service of
        a release goes on with the served query, any other ends
    adopt: the owner from whom the query's name is taken over, if that owner is gone for good
    replace: whether a query with another meaning replaces the one that is served under its name
    backfill: how far back such a query reads its inputs again: window, none or earliest
    transactions: whether the sink writes in Kafka transactions
    router_transactions: whether the router does as well; results don't need this, and are later with it
    compression: of the records that services write
    results_format: one Arrow message a frame, one JSON message a probe, or one message a row with a registered schema
    topics: the configuration of topics that spojoin creates, by kind (all, internal, results, dlq, inputs, tables) and
        Kafka's own names, including `replication.factor`
    results_bytes_max: how many bytes of results and dead letters are kept, unless `topics` says
    frame_tuples, linger_ms: a frame is closed at this size, or this long after its first tuple
    batch_tuples, batch_frames: a batch is sealed at this size, or this many frames after its first
    handover_frames: a batch is immutable from this many frames after its seal; default: 2, or 1 if it is made and
        searched in the router's process
    credits_frames: how many frames may be under way before their results are out
    drain_ms: how long a PO-Join worker that should end continues while frames wait for it
    stall_ms_max: a loop that has not completed a turn for this long is unhealthy
    statefulset, namespace: the workers' StatefulSet, for the controller; default: in its own namespace
    autoscale: whether the controller sets the number of workers itself, by the load that they report to the store
    scale_once: the number of workers that the controller sets once; a new value is again set once
    scale_min, scale_max: the limits of that number; default: up to workers_max
    scale_cpu_high, scale_lag_high: a worker is busy if it uses this many cores, or is this many records behind
    scale_cpu_low: one worker fewer is enough if each of the others would use no more cores than this
    scale_up_after_s, scale_down_after_s: how long a worker must be busy, or one worker fewer be enough
    scale_wait_s_max: how long to wait for new workers to be ready, and for frames to be answered before workers go
    metrics_host, metrics_port: where /metrics, /healthz and /readyz are served; port 0 takes any free port
    log_level: debug, info, warning or error
    """

    model_config = SettingsConfigDict(env_prefix=ENV_PREFIX, frozen=True, extra="forbid", hide_input_in_errors=True)

    query_file: Path
    intake: int | None = Field(None, ge=0)
    intakes: int = Field(0, ge=0, le=1024)
    joiner: int | None = Field(None, ge=0)
    joiners: int | None = Field(None, ge=1, le=1024)
    logical_and: int | None = Field(None, ge=0)
    logical_ands: int = Field(1, ge=1, le=1024)
    worker: int | None = Field(None, ge=0)
    workers: int = Field(2, ge=1, le=1024)
    workers_max: int = Field(default_factory=lambda given: given.get("workers", 1), ge=1, le=1024)
    sink: int | None = Field(None, ge=0)
    sinks: int = Field(1, ge=1, le=SINKS_MAX)
    columns: int = Field(1, ge=1, le=1024)
    columns_by: Literal["batch", "key"] = "batch"
    packing: str = APART
    standbys: bool = False
    instance: str = Field(FIRST_INSTANCE, pattern="^[a-z0-9]{1,16}$")
    patience_ms: int = Field(500, ge=20)
    workers_inside: int = Field(1, ge=1, le=1024)
    threads: int | None = Field(None, ge=1, le=1024)
    bootstrap_servers: str = Field("127.0.0.1:9092", min_length=1)
    kafka: dict[str, str | int | float | bool] = Field(default_factory=dict, repr=False)
    kafka_username: str | None = Field(None, min_length=1)
    kafka_password: SecretStr | None = None
    kafka_password_file: Path | None = None
    redis_url: str | None = Field(None, repr=False)
    redis_username: str | None = Field(None, min_length=1)
    redis_password: SecretStr | None = None
    redis_password_file: Path | None = None
    registry_url: str | None = Field(None, repr=False)
    registry_username: str | None = Field(None, min_length=1)
    registry_password: SecretStr | None = None
    registry_password_file: Path | None = None
    registry_ca: Path | None = None
    secrets_folders: tuple[Path, ...] = ()
    input_topics: dict[str, str] = Field(default_factory=dict)
    owner: str = Field(NO_RELEASE, min_length=1)
    adopt: str = ""
    replace: bool = False
    backfill: Backfill = Backfill.WINDOW
    transactions: bool = True
    router_transactions: bool = False
    compression: Literal["none", "lz4", "zstd"] = "none"
    results_format: ResultsFormat = "frames"
    topics: dict[str, dict[str, str | int | float | bool]] = Field(default_factory=dict)
    results_bytes_max: int | None = Field(None, ge=1 << 20)
    frame_tuples: int = Field(8_192, ge=1)
    linger_ms: int = Field(2, ge=0)
    batch_tuples: int = Field(8_192, ge=1)
    batch_frames: int = Field(256, ge=1)
    handover_frames: int | None = Field(None, ge=1)
    credits_frames: int = Field(256, ge=1)
    drain_ms: int = Field(0, ge=0)
    stall_ms_max: int = Field(60_000, ge=1_000)
    statefulset: str | None = None
    namespace: str | None = None
    autoscale: bool = False
    scale_once: int | None = Field(None, ge=1, le=1024)
    scale_min: int = Field(1, ge=1)
    scale_max: int = Field(default_factory=lambda given: given.get("workers_max", 1), ge=1)
    scale_cpu_high: float = Field(0.8, gt=0)
    scale_cpu_low: float = Field(0.4, gt=0)
    scale_lag_high: int = Field(64, ge=1)
    scale_up_after_s: float = Field(15.0, ge=0)
    scale_down_after_s: float = Field(300.0, ge=0)
    scale_wait_s_max: float = Field(300.0, gt=0)
    metrics_host: str = "127.0.0.1"
    metrics_port: int = Field(0, ge=0, le=65_535)
    log_level: Literal["debug", "info", "warning", "error"] = "info"

    @model_validator(mode="after")
    def _agree(self) -> Self:
        owned = {"bootstrap.servers", "transactional.id", "isolation.level", "enable.idempotence", "group.id"}
        for name in sorted(owned & self.kafka.keys()):
            raise ValueError(f"kafka: {name} is set by the service itself; remove it")
        if self.redis_url is not None and not self.redis_url.startswith(("redis://", "rediss://", "unix://")):
            # Don't show the URL, which may contain a password.
            raise ValueError("redis_url doesn't begin with redis://, rediss:// or unix://")
        if "workers" in self.model_fields_set and self.workers_max < self.workers:
            raise ValueError(f"workers_max is {self.workers_max}; expected at least workers, which is {self.workers}")
        if self.columns > self.workers_max:
            raise ValueError(f"columns is {self.columns}; expected at most workers_max, which is {self.workers_max}")
        self._check_scale()
        try:
            packing = parse_packing(self.packing)
        except ConfigurationError as error:
            raise ValueError(f"setting packing: {error}") from error
        if self.logical_ands > 1 and packing.is_shared(Role.LOGICAL_AND):
            raise ValueError(
                f"logical_ands is {self.logical_ands}, and packing {self.packing!r} puts the logical AND into a shared "
                "process, which has one: set logical_ands to 1, or give it processes of its own"
            )
        if self.sinks > 1 and packing.is_shared(Role.SINK):
            raise ValueError(
                f"sinks is {self.sinks}, and packing {self.packing!r} puts the sink into a shared process, which has "
                "one: set sinks to 1, or give it processes of its own"
            )
        try:
            topic_configs(self.topics, self.results_bytes_max)
        except ConfigurationError as error:
            raise ValueError(f"setting {error}") from error
        check_credentials("kafka", self.kafka_username, self.kafka_password, self.kafka_password_file)
        check_credentials("redis", self.redis_username, self.redis_password, self.redis_password_file)
        check_credentials("registry", self.registry_username, self.registry_password, self.registry_password_file)
        self._check_registry()
        return self

    def named(self, service: str) -> str:
        """The name of this instance of a service in reports."""
        return instance_name(service, self.instance)

    @property
    def is_release(self) -> bool:
        """Whether the services belong to a release: then they should go on regardless of the query they are given."""
        return self.owner != NO_RELEASE

    @property
    def topic_configs(self) -> TopicConfigs:
        """How Kafka keeps each kind of topic."""
        return topic_configs(self.topics, self.results_bytes_max)

    def workers_packed(self) -> int:
        """How many of the first workers share a process with other roles."""
        are_inside = parse_packing(self.packing).has_workers_inside
        return min(self.workers_inside, self.workers_max) if are_inside else 0

    @property
    def has_answerers(self) -> bool:
        """Whether each worker is an answerer."""
        return parse_packing(self.packing).has_answerers

    def mutable_reporters(self) -> int:
        """How many logical ANDs may report: with answerers, as many as there may be workers."""
        return self.workers_max if self.has_answerers else self.logical_ands

    def kafka_properties(self) -> Properties:
        """The properties of every Kafka client except the brokers, including passwords.

        Raises ConfigurationError if librdkafka doesn't accept them.
        """
        password = secret("kafka_password", self.kafka_password, self.kafka_password_file)
        properties = with_login(self.kafka, self.kafka_username, password)
        _check_properties(properties)
        return properties

    def check_kafka_names(self) -> None:
        """Raise what `kafka_properties` raises, without needing the password or files."""
        _check_properties(self.kafka, opens_files=False)

    def store_url(self) -> str | None:
        """The store's URL with user and password, only for its client. Raises ConfigurationError."""
        if self.redis_url is None:
            return None
        password = secret("redis_password", self.redis_password, self.redis_password_file)
        return with_user(self.redis_url, self.redis_username, password)

    def registry_login(self) -> str | None:
        """The schema registry's password, only for its client. Raises ConfigurationError."""
        return secret("registry_password", self.registry_password, self.registry_password_file)

    def _check_registry(self) -> None:
        """Check the registry's settings without showing a URL, which may contain a password."""
        for url in (self.registry_url or "").split(",") if self.registry_url is not None else ():
            if not url.strip().startswith(("http://", "https://")):
                raise ValueError("registry_url doesn't begin with http:// or https://")
            if "@" in url:
                raise ValueError("registry_url holds a user or a password: set registry_username, registry_password")
        if self.registry_url is None and RESULT_FORMS[self.results_format].needs_registry:
            raise ValueError(f"results_format {self.results_format} needs registry_url, where its schema is registered")

    def _check_scale(self) -> None:
        if not self.scale_min <= self.scale_max <= self.workers_max:
            raise ValueError(
                f"scale_min is {self.scale_min} and scale_max is {self.scale_max}; expected scale_min <= scale_max <= "
                f"workers_max, which is {self.workers_max}"
            )
        if self.scale_cpu_low >= self.scale_cpu_high:
            raise ValueError(
                f"scale_cpu_low is {self.scale_cpu_low}; expected less than scale_cpu_high, {self.scale_cpu_high}"
            )
        if self.autoscale and self.redis_url is None:
            raise ValueError("autoscale needs redis_url: workers report their load to Redis")

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Arguments override the environment, which overrides a file."""
        files = (YamlConfigSettingsSource(settings_cls), TomlConfigSettingsSource(settings_cls))
        return (init_settings, env_settings, dotenv_settings, *files)


def _check_properties(properties: Properties, *, opens_files: bool = True) -> None:
    from spojoin.ports.kafka_client import check_properties  # noqa: PLC0415  (files are read without Kafka's client)

    check_properties(properties, opens_files=opens_files)


def load_settings(file: Path | None = None, **overrides: object) -> Settings:
    """The settings from `overrides`, the environment and a .yaml, .toml or .env file, in this order of precedence.

    `file` defaults to SPOJOIN_SETTINGS. Raises ConfigurationError that names the first wrong, missing or unknown
    setting.
    """
    check_environment(os.environ, Settings.model_fields)
    named = os.environ.get("SPOJOIN_SETTINGS")
    path = file or (Path(named) if named else None)
    kind: type[Settings] = type("Settings", (Settings,), {"model_config": _with_file(path)}) if path else Settings
    given: dict[str, Any] = {name: value for name, value in overrides.items() if value is not None}
    try:
        return kind(**given)
    except ValidationError as error:
        raise ConfigurationError(_sentence(error, path)) from error
    except SettingsError as error:
        raise ConfigurationError(_no_json(error)) from error


def _with_file(path: Path) -> SettingsConfigDict:
    if not path.is_file():
        raise ConfigurationError(f"settings file {path} is not there: give the path of a .yaml, .toml or .env file")
    key = "env_file" if path.name == ".env" else _FILE_KINDS.get(path.suffix)
    if key is None:
        raise ConfigurationError(f"settings file {path} ends in {path.suffix!r}; expected .yaml, .toml or .env")
    return cast("SettingsConfigDict", {key: path})


def _sentence(error: ValidationError, path: Path | None) -> str:
    first = error.errors()[0]
    name = ".".join(str(part) for part in first["loc"])
    where = f"or in {path}" if path else "or in a file named by SPOJOIN_SETTINGS"
    if first["type"] == "missing":
        return f"setting {name} is missing: set {ENV_PREFIX}{name.upper()} {where}"
    if first["type"] == "extra_forbidden":
        return f"setting {name} is unknown: {advice(name, Settings.model_fields)}"
    if not name:
        return first["msg"].removeprefix("Value error, ")
    value = "of a wrong kind" if name.split(".")[0] in _SECRET else f"{first['input']!r}"
    return f"setting {name} is {value}: {first['msg'][0].lower()}{first['msg'][1:]}"


def _no_json(error: SettingsError) -> str:
    """The message for a setting that isn't JSON, without its value, which may contain a password."""
    named = re.search(r'field "(\w+)"', str(error))
    name = named[1] if named else "a setting"
    return f'setting {name} can\'t be read: expected a JSON object, such as {{"name": "value"}}'


#: Variables that are read outside the settings, often together with them.
OTHERS = {
    "SPOJOIN_SETTINGS": "a settings file",
    "SPOJOIN_PAGE_HOST": "where the page is served",
    "SPOJOIN_PAGE_PORT": "where the page is served",
    "SPOJOIN_PAGE_PATH": "where a proxy shows the page",
    "SPOJOIN_KERNELS": "compiled kernels of an image",
    "SPOJOIN_CACHE_FOLDER": "where jars are kept",
    "SPOJOIN_MAVEN_URL": "where jars come from",
    "SPOJOIN_BROKER_HOST": "the development broker's name",
    "SPOJOIN_DATA_FOLDER": "the development servers' data",
}
#: The prefix of the cluster tests' variables.
_TEST_PREFIX = "SPOJOIN_TEST_"
#: Kubernetes sets such variables for Services; in a release named spojoin, SPOJOIN_KAFKA_SERVICE_HOST and so on.
_SERVICE_LINK = re.compile(r"SPOJOIN_\w+?_(SERVICE_HOST|SERVICE_PORT\w*|PORT_\d+_(TCP|UDP|SCTP)(_PROTO|_PORT|_ADDR)?)")
_SERVICE_ADDRESS = re.compile(r"(tcp|udp|sctp)://")


def check_environment(environment: Mapping[str, str], settings: Collection[str]) -> None:
    """Raise ConfigurationError for the first variable that is neither one of `settings` nor read elsewhere."""
    known = [f"{ENV_PREFIX}{name.upper()}" for name in settings] + [*OTHERS]
    for name, value in sorted(environment.items()):
        if name.upper().startswith(ENV_PREFIX) and name.upper() not in known and not _is_foreign(name, value):
            raise ConfigurationError(f"{name} is no setting: {advice(name.upper(), known)}")


def advice(name: str, known: Collection[str]) -> str:
    """The advice for a name that isn't among the known ones."""
    names = {each.removeprefix(ENV_PREFIX): each for each in known}  # the prefix would make all names similar
    close = difflib.get_close_matches(name.removeprefix(ENV_PREFIX), names, 1)
    return (
        f"did you mean {names[close[0]]}? Correct its name or remove it" if close else "remove it or correct its name"
    )


def _is_foreign(name: str, value: str) -> bool:
    is_address = name.endswith("_PORT") and bool(_SERVICE_ADDRESS.match(value))
    return name.startswith(_TEST_PREFIX) or is_address or bool(_SERVICE_LINK.fullmatch(name))
