#!/bin/bash
# Half for the name, the other half for keeping to one line of at most 60 characters.
reward=0
if grep -qiw paris answer.txt 2>/dev/null; then
  reward=0.5
  [ "$(wc -l < answer.txt)" -le 1 ] && [ "$(wc -m < answer.txt)" -le 61 ] && reward=1
fi
echo "$reward" > "${LOGS_DIR:-/logs}/verifier/reward.txt"
