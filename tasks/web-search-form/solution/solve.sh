#!/bin/bash
curl -s "$(cat site.url)/search?to=Skagen" | grep -o '[0-9][0-9]:[0-9][0-9]' | sort | head -n 1 > answer.txt
