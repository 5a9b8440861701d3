#!/bin/bash
if printf '%s\n' '- Install' '- First run' '- When it fails' | cmp -s - contents.md; then reward=1; else reward=0; fi
echo "$reward" > "${LOGS_DIR:-/logs}/verifier/reward.txt"
