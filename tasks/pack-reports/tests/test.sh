#!/bin/bash
found=$(tar -tzf reports.tar.gz 2>/dev/null | grep -v '/$' | sed 's|^\./||' | sort | tr '\n' ' ')
if [ "$found" = "reports/april.txt reports/may.txt " ]; then reward=1; else reward=0; fi
echo "$reward" > "${LOGS_DIR:-/logs}/verifier/reward.txt"
