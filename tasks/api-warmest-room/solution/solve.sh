#!/bin/bash
api=$(cat api.url)
for room in $(curl -s "$api/rooms" | tr -d '{}[]":,' | sed 's/rooms//'); do
  echo "$(curl -s "$api/rooms/$room" | sed 's/.*"temperature": \([0-9.]*\).*/\1/') $room"
done | sort -n | tail -n 1 | cut -d' ' -f2 > answer.txt
