#!/bin/bash
# Named scores say which half was missed.
honey=0 short=0
grep -qiw honey answer.txt 2>/dev/null && honey=1
words=$(wc -w < answer.txt 2>/dev/null)
[ "${words:-0}" -ge 1 ] && [ "$words" -le 8 ] && short=1
reward=$(awk "BEGIN { print $honey * (1 + $short) / 2 }")
echo "{\"reward\": $reward, \"honey\": $honey, \"short\": $short}" > "${LOGS_DIR:-/logs}/verifier/reward.json"
