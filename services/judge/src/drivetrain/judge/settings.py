"""The judge's settings."""

from pydantic import Field, SecretStr, field_validator, model_validator

from drivetrain.common.settings import Section, Settings


class ModelSettings(Section):
    """A judge model over an OpenAI-compatible endpoint. Off unless `enabled`."""

    enabled: bool = Field(False, description="ask a judge model beside the rules")
    url: str = Field("", description="base URL up to and with /v1")
    model: str = Field("", description="the model's name at that endpoint")
    api_key: SecretStr | None = Field(None, description="sent as a bearer token")
    votes: int = Field(3, ge=1, le=15, description="votes for each turn, odd")
    rounds: int = Field(2, ge=1, le=10, description="rounds of votes before a turn is left unresolved")
    attempts: int = Field(3, ge=1, le=20, description="tries of one vote while the endpoint is unavailable")
    retry_wait_s: float = Field(0.5, ge=0, le=30, description="first wait between tries; doubles, with jitter")
    timeout_s: float = Field(30.0, gt=0, le=600, description="seconds for one call")
    concurrency: int = Field(8, ge=1, le=1000, description="calls at a time")
    temperature: float = Field(0.7, ge=0, le=2)
    max_tokens: int = Field(300, ge=32, le=4096, description="room for one vote")
    context_chars: int = Field(16_000, ge=500, description="characters kept of each part of the conversation")

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
