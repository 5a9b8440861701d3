"""Checks that say whether a process does its job yet."""

import asyncio
from dataclasses import dataclass
from typing import Protocol

import httpx


class Check(Protocol):
    """A question to a process, asked over the network, with a short deadline of its own."""

    async def passes(self) -> bool: ...


@dataclass(frozen=True)
class HttpCheck:
    """Passes when a GET of the URL answers 200."""

    url: str
    timeout_s: float = 5.0

    async def passes(self) -> bool:
        try:
            async with httpx.AsyncClient(timeout=self.timeout_s, trust_env=False) as client:
                return (await client.get(self.url)).status_code == httpx.codes.OK
        except httpx.HTTPError:
            return False


@dataclass(frozen=True)
class PongCheck:
    """Passes when a Redis or Valkey server answers PING."""

    port: int
    host: str = "127.0.0.1"
    timeout_s: float = 2.0

    async def passes(self) -> bool:
        try:
            async with asyncio.timeout(self.timeout_s):
                reader, writer = await asyncio.open_connection(self.host, self.port)
                try:
                    writer.write(b"PING\r\n")
                    await writer.drain()
                    return await reader.readline() == b"+PONG\r\n"
                finally:
                    writer.close()
        except OSError:  # TimeoutError is one
            return False
