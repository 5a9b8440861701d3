#!/bin/bash
# The receipt of another order is worth a little: the call was made.
right=$(printf 'desk-lamp 3 of this shop' | sha256sum | cut -c1-12)
reward=0
if [ "$(tr -d '[:space:]' < receipt.txt 2>/dev/null)" = "$right" ]; then
  reward=1
else
  for count in 1 2 4 30; do
    other=$(printf 'desk-lamp %s of this shop' "$count" | sha256sum | cut -c1-12)
    grep -q "$other" receipt.txt 2>/dev/null && reward=0.3
  done
fi
echo "$reward" > "${LOGS_DIR:-/logs}/verifier/reward.txt"
