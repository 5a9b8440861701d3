#!/bin/bash
site=$(cat site.url)
for page in $(curl -s "$site" | grep -o 'href="[a-z]*.html"' | cut -d'"' -f2); do
  text=$(curl -s "$site/$page")
  echo "$(echo "$text" | sed -n 's/.*class="price">\([0-9.]*\).*/\1/p') $(echo "$text" | sed -n 's/.*<h1>\(.*\)<\/h1>.*/\1/p')"
done | sort -n | head -n 1 | cut -d' ' -f2 > answer.txt
