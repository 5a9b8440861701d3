#!/bin/bash
token=$(curl -s -d '{"user": "ada", "password": "engine-1843"}' "$(cat api.url)/login" | sed 's/.*"token": "\(.*\)".*/\1/')
curl -s -H "Authorization: Bearer $token" "$(cat api.url)/message" | sed 's/.*"message": "\(.*\)".*/\1/' > answer.txt
