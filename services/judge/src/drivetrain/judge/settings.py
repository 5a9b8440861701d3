"""The judge's settings."""

from typing import Literal

from pydantic import Field, SecretStr, field_validator, model_validator

from drivetrain.common.settings import Section, Settings


class ModelSettings(Section):
    """A judge model over an OpenAI-compatible endpoint. Off unless `enabled`. Limits are those of one replica."""

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


class JudgeSettings(Settings):
    """Judges turns: consumes next states and signals, publishes scores."""

    judge: str = Field("rules", pattern=r"^[a-z0-9_-]{1,64}$", description="the id under which scores are published")
    concurrency: int = Field(32, ge=1, le=1000, description="turns judged at a time, for each shard and stream")
    ack_wait_s: float = Field(
        60.0, ge=1, le=3600, description="seconds of silence after which a turn is given to another replica"
    )
    turn_wait_s: float = Field(10.0, ge=0, le=600, description="how long a signal waits for its turn to be recorded")
    model: ModelSettings = ModelSettings()
