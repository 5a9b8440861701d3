#!/bin/bash
said=$(tr -d '[:space:]' < answer.txt 2>/dev/null)
if [ "$said" = "attic" ]; then reward=1; else reward=0; fi
echo "$reward" > "${LOGS_DIR:-/logs}/verifier/reward.txt"
