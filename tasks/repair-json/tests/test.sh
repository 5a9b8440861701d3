#!/bin/bash
reward=$(python3 "${TEST_DIR:-/tests}/check.py")
echo "$reward" > "${LOGS_DIR:-/logs}/verifier/reward.txt"
