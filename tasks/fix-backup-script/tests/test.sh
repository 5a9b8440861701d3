#!/bin/bash
made=$(mktemp -d)
mkdir "$made/from here"
echo 1 > "$made/from here/plain.txt"
echo 2 > "$made/from here/two words.txt"
echo 3 > "$made/from here/other.md"
timeout 10 bash backup.sh "$made/from here" "$made/to there" > /dev/null 2>&1
reward=0
[ "$(cd "$made/to there" 2>/dev/null && ls | tr '\n' '|')" = "plain.txt|two words.txt|" ] && reward=1
echo "$reward" > "${LOGS_DIR:-/logs}/verifier/reward.txt"
