#!/bin/bash
curl -s "$(cat site.url)/hours.html" | grep -A2 Friday | tail -n 1 | sed 's/<[^>]*>//g; s/ //g' > answer.txt
