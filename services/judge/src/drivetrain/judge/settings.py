"""The judge's settings."""

from pathlib import Path
from typing import Literal

from pydantic import Field, SecretStr, field_validator, model_validator

from drivetrain.common.settings import Section, Settings


class ModelSettings(Section):
    """A judge model over an OpenAI-compatible endpoint. Off unless `enabled`. Limits are those of one replica, but the
    token budget and the cache hold for all replicas where `redis_url` is set."""

    enabled: bool = Field(False, description="ask a judge model beside the rules")
    url: str = Field("", description="base URL up to and with /v1")
    model: str = Field("", description="the model's name at that endpoint")
    api_key: SecretStr | None = Field(None, description="sent as a bearer token")
    local: bool = Field(False, description="the endpoint is ours: secrets and personal data are not masked for it")
    format: Literal["json_schema", "json_object", "text"] = Field(
        "json_schema", description="the strictest response_format that the endpoint has; `text` sends none"
    )
    votes: int = Field(3, ge=1, le=15, description="votes for each turn, odd")
    rounds: int = Field(2, ge=1, le=10, description="rounds of votes before a turn is left unresolved")
    attempts: int = Field(3, ge=1, le=20, description="tries of one vote while the endpoint is unavailable")
    retry_wait_s: float = Field(0.5, ge=0, le=30, description="first wait between tries; doubles, with jitter")
    timeout_s: float = Field(30.0, gt=0, le=600, description="seconds for one call")
    concurrency: int = Field(8, ge=1, le=1000, description="calls at a time")
    temperature: float = Field(0.7, ge=0, le=2)
    max_tokens: int = Field(300, ge=32, le=4096, description="room for one vote")
    context_chars: int = Field(16_000, ge=500, description="characters kept of each part of the conversation")
    tokens_per_minute: int | None = Field(None, ge=1000, description="calls wait in line beyond it")
    tokens_per_day: int | None = Field(None, ge=1000, description="calls wait in line beyond it")
    price_prompt: float = Field(0.0, ge=0, description="price of a million prompt tokens, for the metric of spend")
    price_completion: float = Field(0.0, ge=0, description="price of a million tokens answered")
    cache_size: int = Field(4096, ge=0, description="turns whose votes are kept, by a hash of all that was asked")
    redis_url: SecretStr | None = Field(None, description="Redis: one budget and cache for all replicas")
    cache_s: int = Field(86_400, ge=1, description="seconds for which Redis keeps answers")
    breaker_failures: int = Field(6, ge=1, le=1000, description="failed calls in a row after which nothing is pulled")
    breaker_wait_s: float = Field(1.0, gt=0, le=60, description="first wait between probes of it; doubles up to 60 s")

    @field_validator("votes")
    @classmethod
    def _odd(cls, votes: int) -> int:
        if votes % 2 == 0:
            raise ValueError("must be odd, so that votes of -1 and +1 cannot tie: take 3 or 5")
        return votes

    @model_validator(mode="after")
    def _complete(self) -> "ModelSettings":
        if self.enabled and not (self.url.startswith(("http://", "https://")) and self.model):
            raise ValueError("model.enabled needs model.url (http…/v1) and model.model")
        return self


SOURCES = ("feedback", "outcome", "environment", "rubric", "model", "reaction")
"""Every source by name, strong to weak: the default precedence."""


class OutcomeSettings(Section):
    """How the outcome of a rollout is credited to its turns."""

    credit: Literal["uniform", "discounted", "step"] = Field(
        "uniform", description="all of it to each turn; less to earlier ones; all, and the turn's own votes beside it"
    )
    gamma: float = Field(0.95, gt=0, le=1, description="`discounted`: the share left for each main turn further back")
    coef: float = Field(0.5, ge=0, le=10, description="`step`: what the mean of the turn's own votes counts beside it")


class EnvironmentSettings(Section):
    """What tool results are worth."""

    recovery: float = Field(
        0.5, ge=0, le=1, description="credit for another action that works after one that failed; 0 gives none"
    )


class RankingSettings(Section):
    """Groups of rollouts without a verifier, ranked by one call of the judge model."""

    enabled: bool = Field(False, description="rank groups whose task has no verifier")
    wait_s: float = Field(
        3600.0,
        gt=0,
        description="a group that lacks rollouts is ranked once its run went on for so long",
    )


class JudgeSettings(Settings):
    """Judges turns: consumes next states and signals, publishes scores."""

    judge: str = Field("rules", pattern=r"^[a-z0-9_-]{1,64}$", description="the id under which scores are published")
    concurrency: int = Field(32, ge=1, le=1000, description="turns judged at a time, for each shard and stream")
    ack_wait_s: float = Field(
        60.0, ge=1, le=3600, description="seconds of silence after which a turn is given to another replica"
    )
    turn_wait_s: float = Field(10.0, ge=0, le=600, description="how long a signal waits for its turn to be recorded")
    precedence: tuple[str, ...] = Field(SOURCES, description="the sources that are asked, strong to weak, by name")
    outcome: OutcomeSettings = OutcomeSettings()
    environment: EnvironmentSettings = EnvironmentSettings()
    model: ModelSettings = ModelSettings()
    rubrics: dict[str, Path] = Field({}, description="rubric files by policy")
    ranking: RankingSettings = RankingSettings()

    @field_validator("precedence")
    @classmethod
    def _known(cls, precedence: tuple[str, ...]) -> tuple[str, ...]:
        if unknown := [name for name in precedence if name not in SOURCES]:
            raise ValueError(f"unknown source {unknown[0]!r}: the sources are {', '.join(SOURCES)}")
        if len(set(precedence)) < len(precedence) or not precedence:
            raise ValueError("name each source that is to be asked once, and at least one")
        return precedence

    @model_validator(mode="after")
    def _asked(self) -> "JudgeSettings":
        if self.model.enabled and "model" not in self.precedence:
            raise ValueError("model.enabled needs a place for model in precedence")
        if (self.rubrics or self.ranking.enabled) and not self.model.enabled:
            raise ValueError("rubrics and ranking.enabled ask the judge model: set model.enabled")
        if self.rubrics and "rubric" not in self.precedence:
            raise ValueError("rubrics need a place for rubric in precedence")
        if self.ranking.enabled and "outcome" not in self.precedence:
            raise ValueError("ranking.enabled needs a place for outcome in precedence: a place is an outcome")
        return self
