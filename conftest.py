"""Fixtures shared by all tests: the real servers, started once a session, on free ports, ended by pid."""

pytest_plugins = ["tests.servers", "tests.s3", "tests.vllm"]
