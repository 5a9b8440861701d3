#!/bin/bash
# Half for an answer that holds the word, the other half for no word beside it. Case and signs do not count.
words=$(tr -cs '[:alpha:]' '\n' < answer.txt 2>/dev/null | sed '/^$/d' | tr '[:upper:]' '[:lower:]')
reward=0
if grep -qxE 'hello' <<< "$words"; then
  reward=0.5
  [ "$(wc -l <<< "$words")" -eq 1 ] && reward=1
fi
echo "$reward" > "${LOGS_DIR:-/logs}/verifier/reward.txt"
