#!/bin/bash
# The first word counts, in any spelling of its case, with or without a full stop.
said=$(tr -cs '[:alpha:]' '\n' < answer.txt 2>/dev/null | sed '/^$/d' | head -n 1 | tr '[:upper:]' '[:lower:]')
case "$said" in yes) reward=1 ;; *) reward=0 ;; esac
echo "$reward" > "${LOGS_DIR:-/logs}/verifier/reward.txt"
