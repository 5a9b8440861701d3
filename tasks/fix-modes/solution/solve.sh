#!/bin/bash
chmod u+x run.sh
chmod 600 secret.txt
