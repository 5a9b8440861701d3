#!/bin/bash
said=$(tr -s '[:space:]' ' ' < answer.txt 2>/dev/null | sed 's/^ //; s/ $//')
if [ "$said" = "the tide turns at noon" ]; then reward=1; else reward=0; fi
echo "$reward" > "${LOGS_DIR:-/logs}/verifier/reward.txt"
