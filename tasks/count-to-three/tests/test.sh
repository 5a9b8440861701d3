#!/bin/bash
# Commas, spaces and lines between the numbers are all the same.
said=$(tr -cs '[:alnum:]' ' ' < answer.txt 2>/dev/null | sed 's/^ *//; s/ *$//')
if [ "$said" = "1 2 3" ]; then reward=1; else reward=0; fi
echo "$reward" > "${LOGS_DIR:-/logs}/verifier/reward.txt"
