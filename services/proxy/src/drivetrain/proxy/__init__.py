"""The proxy: what harnesses talk to. It answers from vLLM, streams genuinely, and records every token as sampled."""
