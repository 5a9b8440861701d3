#!/bin/bash
if cmp -s "${TEST_DIR:-/tests}/expected.csv" <(tr -d '\r' < orders.csv); then reward=1; else reward=0; fi
echo "$reward" > "${LOGS_DIR:-/logs}/verifier/reward.txt"
