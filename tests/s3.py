"""A real S3 server for the tests, started once a session when a test asks for it."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.servers import free_port, running

MOTO = Path(__file__).parent.parent / ".venv-tools/bin/moto_server"
BUCKET = "drivetrain-test"


@pytest.fixture(scope="session")
def s3_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server with an empty bucket; the environment says where it is, as a service's would."""
    port, log = free_port(), tmp_path_factory.mktemp("s3") / "log"
    if not MOTO.is_file():
        pytest.fail(f"{MOTO} is missing: `make .venv-tools/.ready` installs what deploy/tools.txt pins")
    command = [str(MOTO), "-H", "127.0.0.1", "-p", str(port)]
    environment = {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
        "AWS_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
    }
    with running(command, port, log, timeout_s=60), pytest.MonkeyPatch.context() as patch:
        for name, value in environment.items():
            patch.setenv(name, value)
        httpx.put(f"{environment['AWS_ENDPOINT_URL']}/{BUCKET}").raise_for_status()
        yield f"s3://{BUCKET}"
