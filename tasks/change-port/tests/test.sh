#!/bin/bash
if cmp -s "${TEST_DIR:-/tests}/expected.ini" settings.ini; then reward=1; else reward=0; fi
echo "$reward" > "${LOGS_DIR:-/logs}/verifier/reward.txt"
