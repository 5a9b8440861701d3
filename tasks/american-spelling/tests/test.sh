#!/bin/bash
intro=0 usage=0 spared=0
cmp -s "${TEST_DIR:-/tests}/intro.md" docs/intro.md && intro=1
cmp -s "${TEST_DIR:-/tests}/usage.md" docs/deep/usage.md && usage=1
cmp -s "${TEST_DIR:-/tests}/theme.css" docs/theme.css && spared=1
reward=$(awk "BEGIN { print $spared * ($intro + $usage) / 2 }")
echo "{\"reward\": $reward, \"intro\": $intro, \"usage\": $usage, \"spared\": $spared}" > "${LOGS_DIR:-/logs}/verifier/reward.json"
