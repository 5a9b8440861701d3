#!/bin/bash
curl -s -H 'Content-Type: application/json' -d '{"item": "desk-lamp", "count": 3}' "$(cat api.url)/orders" |
  sed 's/.*"receipt": "\([0-9a-f]*\)".*/\1/' > receipt.txt
