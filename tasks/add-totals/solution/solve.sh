#!/bin/bash
awk -F, 'NR == 1 { print $0 ",total"; next } { printf "%s,%.2f\n", $0, $2 * $3 }' orders.csv > new.csv
mv new.csv orders.csv
