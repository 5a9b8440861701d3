#!/bin/bash
page=1
total=0
while [ "$page" != null ]; do
  found=$(curl -s "$(cat api.url)/payments?page=$page")
  for amount in $(echo "$found" | grep -o '"amount": [0-9]*' | cut -d' ' -f2); do total=$((total + amount)); done
  page=$(echo "$found" | sed 's/.*"next": \([0-9a-z]*\).*/\1/')
done
echo "$total" > answer.txt
