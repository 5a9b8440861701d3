#!/bin/bash
run=0 secret=0 notes=0
[ -x run.sh ] && run=1
[ "$(stat -c %a secret.txt 2>/dev/null)" = 600 ] && secret=1
[ "$(stat -c %a notes.txt 2>/dev/null)" = 644 ] && notes=1
# Leaving a file alone earns nothing by itself.
reward=$(awk "BEGIN { print $notes * ($run + $secret) / 2 }")
echo "{\"reward\": $reward, \"run\": $run, \"secret\": $secret, \"notes\": $notes}" > "${LOGS_DIR:-/logs}/verifier/reward.json"
