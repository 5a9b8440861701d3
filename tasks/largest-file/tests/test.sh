#!/bin/bash
said=$(tr -d '[:space:]' < answer.txt 2>/dev/null)
if [ "$said" = "data/old/b.txt" ]; then reward=1; else reward=0; fi
echo "$reward" > "${LOGS_DIR:-/logs}/verifier/reward.txt"
