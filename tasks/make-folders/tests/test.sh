#!/bin/bash
css=0 img=0 index=0
[ -d site/css ] && css=1
[ -d site/img ] && img=1
[ -f site/index.html ] && [ ! -s site/index.html ] && index=1
reward=$(awk "BEGIN { print int(($css + $img + $index) / 3 * 100) / 100 }")
echo "{\"reward\": $reward, \"css\": $css, \"img\": $img, \"index\": $index}" > "${LOGS_DIR:-/logs}/verifier/reward.json"
