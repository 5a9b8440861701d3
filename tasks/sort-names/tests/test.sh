#!/bin/bash
if printf '%s\n' Ada Alan Barbara Edsger Grace Linus | cmp -s - sorted.txt; then reward=1; else reward=0; fi
echo "$reward" > "${LOGS_DIR:-/logs}/verifier/reward.txt"
